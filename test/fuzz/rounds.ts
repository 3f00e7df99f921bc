import fc from "fast-check";
import pLimit from "p-limit";
import { makeRemoteIn } from "../remote.ts";
import { spawnService } from "../service-process.ts";
import { until } from "../until.ts";
import { openDoors, type Answer } from "./ask.ts";
import { createJudge } from "./judge.ts";
import { withMessages } from "./messages.ts";
import { probedProgram, probeOf } from "./probe.ts";
import { questionsAbout, type Document, type Question } from "./question.ts";
import { written } from "./spoilt.ts";

type Options = {
  directory: string;
  count: number;
  /** The same seed gives the same questions. */
  seed: number;
  /** Number of the first question. */
  from?: number;
  onBatch?: (tally: FuzzTally) => void;
};

export type FuzzTally = {
  seed: number;
  asked: number;
  /** By door, status and code. */
  answers: Record<string, number>;
  /** Of the event loop, CPU ms. */
  longestBlock: number;
  /** Bytes: of the heap after a collection, early and late, and the most of the whole process. */
  memory: { early: number; late: number; peak: number };
  /** Open files and connections. */
  files: { early: number; late: number };
  faults: string[];
};

const batchSize = 200;
const atOnce = 12;

const limits = {
  /** CPU ms that a request of so many bytes may block the event loop for: 100, and 300 near 20 MiB. */
  block: (bytes: number) => 100 + 200 * Math.min(1, bytes / 18_000_000),
  growth: (asked: number) => 24 * 2 ** 20 + asked * 512,
  peak: 1.5 * 2 ** 30,
  files: 30,
};

const env = {
  AGENT_MODE: "true",
  AGENT_MODE_MAX_CONCURRENT: "2",
  AGENT_MODE_KEEP_ALIVE: "1",
  AGENT_MODE_CONVERSATION_TTL: "60",
  SERVICE_MAX_PARALLEL_JOBS: "1",
  SERVICE_MAX_QUEUED_JOBS: "5",
  SERVICE_JOB_TTL: "60",
  SERVICE_WORKTREE_TTL: "0",
  SERVICE_PREPARED_WORKTREE_TTL: "60",
  SERVICE_AGENT_ENV: "FAKE_AGENT_SCENARIO",
  FAKE_AGENT_SCENARIO: "noop",
  SERVICE_LOG_LEVEL: "fatal",
  // What looks like a repository of the git host is to lead nowhere.
  GIT_HOST: "127.0.0.1:9",
};

type Numbered = { number: number; question: Question };

/** Asks the real service, with the fake agent, so many questions over all its doors, and notes what it must not do. */
export const fuzz = async (options: Options): Promise<FuzzTally> => {
  const { directory, count, seed, from = 0, onBatch = () => undefined } = options;
  const remote = await makeRemoteIn(directory);
  const service = await spawnService({ home: directory, env, program: probedProgram });
  const doors = openDoors(service, remote.path);
  const probe = probeOf(service);
  const tally: FuzzTally = {
    seed,
    asked: 0,
    answers: {},
    longestBlock: 0,
    memory: { early: 0, late: 0, peak: 0 },
    files: { early: 0, late: 0 },
    faults: [],
  };
  const known = new Set<string>();
  /** Of each kind the first. */
  const fault = (kind: string, example: string): void => {
    if (!known.has(kind)) tally.faults.push(`${kind}: ${example}`);
    known.add(kind);
  };

  const askAll = async (batch: Numbered[], onAnswer?: (answer: Answer, each: Numbered) => void) => {
    const limit = pLimit(atOnce);
    await Promise.all(
      batch.map((each) => limit(async () => onAnswer?.(await doors.ask(each.question), each))),
    );
    return await probe.block();
  };

  /** Asks again to find who blocks the event loop. What does not do so each time was chance, such as a collection. */
  const findBlocking = async (batch: Numbered[], times = 3): Promise<void> => {
    const isOne = batch.length === 1;
    const bytes = isOne ? written(batch[0]?.question.body, new Map()).length : 0;
    const block = await askAll(batch);
    if (block <= limits.block(bytes)) return;
    const half = Math.ceil(batch.length / 2);
    if (!isOne) for (const part of [batch.slice(0, half), batch.slice(half)]) await findBlocking(part);
    else if (times > 1) await findBlocking(batch, times - 1);
    else
      for (const { question, number } of batch)
        fault(
          `${question.operationId} blocks the event loop`,
          `${block} ms by ${bytes} bytes, ${seed}:${number} ${shown(question)}`,
        );
  };

  try {
    const document = (await (await fetch(`${service.url}/openapi.json`)).json()) as Document;
    const described = withMessages(document);
    const questions = questionsAbout(described);
    const judge = createJudge(described);
    const note = (answer: Answer, { question, number }: Numbered): void => {
      const wrong = judge(question, answer);
      const kind = labelOf(answer);
      tally.asked += 1;
      tally.answers[kind] = (tally.answers[kind] ?? 0) + 1;
      if (wrong !== null)
        fault(
          `${question.method} ${question.path}, ${kind}: ${wrong.slice(0, 300)}`,
          `${seed}:${number} ${shown(question)} ${answer.body.slice(0, 300)}`,
        );
    };
    await probe.block();
    for (let at = 0; at < count; at += batchSize) {
      if (at <= count / 5) tally.memory.early = await probe.heap();
      if (at <= count / 5) tally.files.early = await probe.files();
      const batch = Array.from({ length: Math.min(batchSize, count - at) }, (_, index) => {
        const number = from + at + index;
        // Each has its own seed: it can be asked again without those before it.
        const [question] = fc.sample(questions, { seed: seed + number * 7919, numRuns: 1 });
        return { number, question: question as Question };
      });
      const block = await askAll(batch, note);
      tally.longestBlock = Math.max(tally.longestBlock, block);
      if (block > limits.block(0)) await findBlocking(batch);
      onBatch(tally);
    }
    const { memory, files } = tally;
    memory.peak = await probe.peak();
    doors.close();
    // A turn whose caller has left a moment ago still holds its message.
    const isBack = async (): Promise<boolean> => {
      memory.late = await probe.heap();
      return memory.late - memory.early <= limits.growth(count);
    };
    await until(isBack, { seconds: 15 }).catch(() => fault("the heap grows", JSON.stringify(memory)));
    await until(async () => (files.late = await probe.files()) - files.early <= limits.files).catch(() =>
      fault("files stay open", JSON.stringify(files)),
    );
    if (memory.peak > limits.peak) fault("too much memory at once", JSON.stringify(memory));
    return tally;
  } finally {
    await service.kill();
  }
};

const labelOf = ({ door, status, body, left = false, fault }: Answer): string => {
  const code = /"code":"?([\w-]+)/.exec(body.slice(0, 10_000))?.[1];
  return [door, fault !== undefined ? "fault" : left ? "left" : status, code]
    .filter((part) => part !== undefined)
    .join(" ");
};

const shown = (question: Question): string => JSON.stringify(question).slice(0, 700);
