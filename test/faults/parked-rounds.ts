import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { asksPerson, isFinal, type Job } from "../../src/contract/job.ts";
import { isParked, outlivesInstance, type JobRecord } from "../../src/store/job-record.ts";
import { startFakeModel } from "../fake-model/fake-model.ts";
import { processesMarked } from "../processes.ts";
import { makeRemoteIn } from "../remote.ts";
import { spawnService, type Service } from "../service-process.ts";
import { until } from "../until.ts";

type Options = {
  /** Directory to work in. */
  directory: string;
  rounds: number;
  /** A number in [0, 1), as Math.random. */
  random: () => number;
  /** Told after each round, for a program that shows progress. */
  onRound?: (round: number, tally: Tally) => void;
  /** The real CLI with a scripted model, instead of the stand-in. */
  isReal?: boolean;
};

export type Tally = {
  kills: number;
  jobs: number;
  succeeded: number;
  lost: number;
  /** What jobs were at when the service was killed. */
  moments: Record<string, number>;
  faults: string[];
};

/** Red until the agent was told of it. */
const needs = (then: string): string =>
  `sleep 0.2; test "$(ls)" = README.md || test -f mended.txt || { echo 'scenario: ${then}'; exit 3; }`;

const mending = {
  stand: 'work {"file": "mended.txt"}',
  real: 'bash {"command": "touch mended.txt"}',
};

const tasks = (isReal: boolean) => [
  { task: "scenario: ask {}" },
  { task: "scenario: plan {}", options: { plan: true } },
  { task: isReal ? 'scenario: bash {"command": "touch work.txt"}' : "scenario: work", profile: "checked" },
  // Last: it holds those that are not begun.
  ...(isReal ? [] : [{ task: limited(), profile: "waits" }]),
];

/** At its usage limit for a second. */
const limited = (): string => {
  const resetsAt = Math.ceil(Date.now() / 1000) + 1;
  return `scenario: rate-limit ${JSON.stringify({ resetsAt, times: 1 })}`;
};

/** What a person has seen of a job and said. */
type Person = { asked: Set<string>; answered: string[] };

/**
 * Kills the service with SIGKILL at random moments while its jobs ask, are answered, are parked, wait for a limit, go on, are
 * checked and told of red checks; starts it again, and checks that nothing of it is lost or done twice: a job that waited, or whose agent had
 * ended, succeeds; nobody is asked a question twice; each answer arrives; red checks are told once.
 */
export const parkedRounds = async ({
  directory,
  rounds,
  random,
  onRound,
  isReal = false,
}: Options): Promise<Tally> => {
  const remote = await makeRemoteIn(directory);
  const model = isReal ? await startFakeModel({ token: "model-token" }) : null;
  await writeProfile(directory, mending[isReal ? "real" : "stand"]);
  const env: Record<string, string> = {
    SERVICE_AGENT_SANDBOX: "bwrap",
    SERVICE_MAX_PARALLEL_JOBS: "5",
    SERVICE_LIMIT_JITTER: "1",
    // Who comes late finds the reset in the past.
    SERVICE_LIMIT_PAUSES: "1",
    ...(model !== null && {
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "../../node_modules/.bin/claude"),
      MODEL_API_BASE_URL: model.url,
      MODEL_API_AUTH_TOKEN: "model-token",
    }),
  };
  const start = () =>
    spawnService({
      home: directory,
      // Half of the questions are parked at once.
      env: { ...env, SERVICE_QUESTION_LIVE: random() < 0.5 ? "0" : "120" },
    });
  const tally: Tally = { kills: 0, jobs: 0, succeeded: 0, lost: 0, moments: {}, faults: [] };
  let service = await start();
  try {
    for (let round = 1; round <= rounds; round += 1) {
      const people = new Map<string, Person>();
      for (const task of tasks(isReal)) {
        const { job } = await service.client.run_task({ ...task, repo_url: remote.path });
        people.set(job.id, { asked: new Set(), answered: [] });
      }
      tally.jobs += people.size;
      const killed = new AbortController();
      const talking = talk(service, people, { random, signal: killed.signal });
      await delay(random() * (isReal ? 9000 : 2500));
      killed.abort();
      await service.kill();
      await talking;
      tally.kills += 1;
      const before = await recordsOf(directory, people);
      for (const record of before) count(tally.moments, momentOf(record));
      service = await start();
      await talk(service, people, { random, signal: AbortSignal.timeout(60_000) });
      for (const record of before) await checkEnd({ service, record, people, tally });
      onRound?.(round, tally);
    }
  } finally {
    await service.kill();
    await model?.close();
  }
  return tally;
};

const writeProfile = async (home: string, then: string): Promise<void> => {
  const profiles = join(home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  const checks = [{ name: "mended", run: needs(then) }];
  await writeFile(join(profiles, "waits.yml"), JSON.stringify({ extends: "code", on_limit: "wait" }));
  await writeFile(
    join(profiles, "checked.yml"),
    JSON.stringify({ extends: "code", checks, check_rounds: 1 }),
  );
};

const count = (counts: Record<string, number>, name: string): void =>
  void (counts[name] = (counts[name] ?? 0) + 1);

/** Answers what is asked, after a while, until all jobs have ended or the service is killed. */
const talk = async (
  { client }: Service,
  people: Map<string, Person>,
  { random, signal }: { random: () => number; signal: AbortSignal },
): Promise<void> => {
  const answerOne = async (id: string, person: Person): Promise<void> => {
    for (;;) {
      const { job } = await client.get_job({ job_id: id });
      if (isFinal(job.status)) return;
      if (asksPerson(job.waiting)) {
        person.asked.add(job.waiting.id);
        await delay(random() * 500, undefined, { signal });
        const say = job.waiting.kind === "plan" ? { approve: true } : { text: `Answer ${person.asked.size}` };
        const { id: question } = job.waiting;
        await client.answer_job({ job_id: id, id: question, ...say });
        person.answered.push(question);
      }
      await delay(30, undefined, { signal });
    }
  };
  // The kill cuts requests off.
  await Promise.allSettled(Array.from(people, ([id, person]) => answerOne(id, person)));
};

const recordsOf = (home: string, people: Map<string, Person>): Promise<JobRecord[]> =>
  Promise.all(
    Array.from(
      people.keys(),
      async (id) =>
        JSON.parse(await readFile(join(home, ".service", "jobs", `${id}.json`), "utf8")) as JobRecord,
    ),
  );

const momentOf = ({ status, held, waiting, asked, checking, unsettled, process }: JobRecord): string => {
  if (status !== "running") return held === null ? status : "held";
  if (waiting?.kind === "limit") return "at a limit, parked";
  if (checking !== null) return checking.tell ? "to be told of red checks" : "checks run";
  if (asked !== null)
    return `${asked.answer === null ? "asked" : "answered"}, ${unsettled ? "with a process" : "parked"}`;
  return process === null ? "preparing" : "agent at work";
};

type End = { service: Service; record: JobRecord; people: Map<string, Person>; tally: Tally };

const checkEnd = async ({ service, record, people, tally }: End): Promise<void> => {
  const { id } = record;
  const job = await until(
    async () => {
      const { job: now } = await service.client.get_job({ job_id: id });
      return isFinal(now.status) ? now : null;
    },
    { what: `job ${id} to end` },
  );
  const fault = (what: string): void =>
    void tally.faults.push(`job ${id} (${momentOf(record)} → ${job.status}): ${what}`);
  const { asked, answered } = people.get(id) ?? { asked: new Set(), answered: [] };
  if (job.status === "succeeded") tally.succeeded += 1;
  else if (job.failure_reason === "instance_lost" && !outlivesInstance(record) && !isParked(record))
    tally.lost += 1;
  else fault(`${job.failure_reason}: ${job.error}`);
  if (asked.size > 1 && record.attempt === job.attempt) fault(`a person was asked ${asked.size} times`);
  if (new Set(answered).size < answered.length) fault("two answers to a question were taken");
  if (record.check_round > 1 || job.warnings.some((text) => text.includes("lost"))) fault("told twice");
  if (processesMarked(id).length > 0) fault("a process of the job is left");
  if (job.status === "succeeded") await checkWork(job, fault);
};

const checkWork = async (job: Job, fault: (what: string) => void): Promise<void> => {
  const read = (file: string) => readFile(join(String(job.worktree_path), file), "utf8").catch(() => null);
  if (job.profile === "checked") {
    if (job.checks.some(({ status }) => status !== "passed")) fault("its checks are not green");
    if ((await read("mended.txt")) === null) fault("it is not mended");
    return;
  }
  const told = await Promise.all(["answer.txt", "agent-output.txt"].map(read));
  if (job.task === "scenario: ask {}" && !/Answer 1/.test(told.join()))
    fault(`the answer did not arrive: ${told.join()}`);
};
