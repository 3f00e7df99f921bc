import { setTimeout as delay } from "node:timers/promises";
import { isFinal } from "../../src/contract/job.ts";
import { ClientError } from "../../src/client/client-error.ts";
import type { TestRedis } from "../redis.ts";
import type { Service } from "../service-process.ts";
import { until } from "../until.ts";
import { readJournal, runsIn } from "./store-journal.ts";
import { submitOnce, type Answer } from "./store-submit.ts";
import { createStoreWorld, nth, startPromptRedis } from "./store-world.ts";

type How = "kill" | "freeze";

type Options = {
  directory: string;
  /** How often the store goes away. */
  rounds: number;
  /** A number in [0, 1), as Math.random. */
  random: () => number;
  /** In turns. `kill`: SIGKILL, and started again after a moment. `freeze`: it does not answer for 5 s; what was sent it does afterwards. */
  hows?: readonly How[];
  /** Whether being slower than the goal allows is a fault: not where other tests use the processors too. */
  timed?: boolean;
  onRound?: (round: number, tally: Tally) => void;
};

export type Tally = {
  outages: number;
  /** Jobs that were answered with 200. */
  acknowledged: number;
  succeeded: number;
  /** Submissions that were refused, by status and code. */
  refused: Record<string, number>;
  slowestRefusalMs: number;
  slowestResumeMs: number;
  faults: string[];
};

/** What the goal allows, ms. */
const longestResume = 5000;
const longestRefusal = { kill: 2000, freeze: 4000 };

const tasks = ['scenario: noop {"ms": 300}', 'scenario: paced {"steps": 4, "ms": 120}', "scenario: noop"];

/**
 * Kills the store with SIGKILL at random moments while two instances get and run jobs, and starts it again after a
 * moment with what it had on disk. No job that was acknowledged may be lost, run twice or end otherwise than well, and
 * what is refused must be refused soon and clearly.
 */
export const storeRounds = async ({
  directory,
  rounds,
  random,
  hows = ["kill"],
  timed = false,
  onRound,
}: Options): Promise<Tally> => {
  const redis = await startPromptRedis();
  const { journal, remote, services } = await createStoreWorld({
    kvUrl: redis.url,
    directory,
    names: ["i1", "i2"],
  });
  const tally: Tally = {
    outages: 0,
    acknowledged: 0,
    succeeded: 0,
    refused: {},
    slowestRefusalMs: 0,
    slowestResumeMs: 0,
    faults: [],
  };
  const load = startLoad(services, remote.path);
  for (let round = 1; round <= rounds; round += 1) {
    await delay(100 + random() * 300);
    const how = hows[(round - 1) % hows.length] ?? "kill";
    const away = how === "freeze" ? 5000 : 150 + random() * 450;
    await outage({ redis, journal, tally, how, timed, away, refusals: load.refusals });
    onRound?.(round, tally);
  }
  const answers = await load.stop();
  noteAnswers(answers, tally, timed ? Math.max(...hows.map((how) => longestRefusal[how])) : Infinity);
  const ids = answers.flatMap(({ id }) => (id === null ? [] : [id]));
  await Promise.all(ids.map((id) => checkJob({ services, id, tally })));
  const runs = await runsIn(journal);
  for (const id of ids) if (runs.get(id) !== 1) tally.faults.push(`${id} was run ${runs.get(id) ?? 0} times`);
  await Promise.all(services.map((service) => service.kill()));
  await redis.kill();
  return tally;
};

/** Submits to one instance after the other, a little more than they can do, until told to stop. */
const startLoad = (services: Service[], repo: string) => {
  const stopping = new AbortController();
  const answers: Answer[] = [];
  const client = async (first: number): Promise<void> => {
    for (let at = first; !stopping.signal.aborted; at += 2) {
      const task = tasks[at % tasks.length] ?? "";
      const body = { task, repo_url: at % 4 === 0 ? repo : "" };
      answers.push(await submitOnce(nth(services, at).url, body));
      await delay(250);
    }
  };
  const clients = Promise.all([0, 1].map(client));
  return {
    refusals: (): number => answers.filter(({ id }) => id === null).length,
    stop: async (): Promise<Answer[]> => {
      stopping.abort();
      await clients;
      return answers;
    },
  };
};

type Outage = {
  redis: TestRedis;
  journal: string;
  tally: Tally;
  how: How;
  timed: boolean;
  /** ms. */
  away: number;
  /** How many submissions were refused so far. */
  refusals: () => number;
};

const outage = async ({ redis, journal, tally, how, timed, away, refusals }: Outage): Promise<void> => {
  const before = await readJournal(journal);
  const refused = refusals();
  if (how === "kill") await redis.kill();
  else redis.freeze();
  tally.outages += 1;
  await delay(away);
  // On a busy machine a short outage could meet no submission, and would prove nothing.
  await until(() => refusals() > refused, { seconds: 60, what: "a submission to be refused" });
  if (how === "kill") await redis.restart();
  else redis.thaw();
  const back = Date.now();
  const known = before.length;
  // Work goes on when an agent is given a job again.
  await until(
    async () =>
      (await readJournal(journal))
        .slice(known)
        .some(({ pid, at }) => pid !== undefined && Date.parse(at ?? "") >= back),
    { seconds: 60, what: "work to go on after the store is back" },
  );
  const took = Date.now() - back;
  tally.slowestResumeMs = Math.max(tally.slowestResumeMs, took);
  if (timed && took > longestResume) tally.faults.push(`work went on ${took} ms after the store was back`);
};

const noteAnswers = (answers: Answer[], tally: Tally, longest: number): void => {
  for (const { id, status, code, retryAfter, ms } of answers) {
    if (id !== null) {
      tally.acknowledged += 1;
      continue;
    }
    const what = `${status} ${code}`;
    tally.refused[what] = (tally.refused[what] ?? 0) + 1;
    tally.slowestRefusalMs = Math.max(tally.slowestRefusalMs, Math.round(ms));
    if (what !== "503 store_unavailable" || retryAfter === null)
      tally.faults.push(`a submission was refused with ${what}, Retry-After ${retryAfter}`);
    if (ms > longest) tally.faults.push(`a submission was refused after ${Math.round(ms)} ms`);
  }
};

const notFound = (error: unknown): null => {
  if (error instanceof ClientError && error.status === 404) return null;
  throw error;
};

type Check = { services: Service[]; id: string; tally: Tally };

/**
 * Found at either instance, ended well, and its events come to an end. A claim whose answer was lost with the store is made
 * again as a further attempt; that no agent was given the job twice is told by the journal.
 */
const checkJob = async ({ services, id, tally }: Check): Promise<void> => {
  const [first, second] = [nth(services, 0), nth(services, 1)];
  const { job } = await until(
    async () => {
      const answer = await first.client.get_job({ job_id: id }).catch(notFound);
      if (answer === null) return { job: null };
      return isFinal(answer.job.status) ? answer : null;
    },
    { seconds: 120, what: `job ${id} to end` },
  );
  if (job === null) return void tally.faults.push(`${id} was acknowledged and is lost`);
  if (job.status === "succeeded") tally.succeeded += 1;
  else
    tally.faults.push(
      `${id}: ${job.status} after attempt ${job.attempt}: ${job.failure_reason} ${job.error}`,
    );
  const response = await fetch(`${second.url}/jobs/${id}/events`, { signal: AbortSignal.timeout(60_000) });
  const ended = await response.text().then(
    (text) => text.includes('"ended"'),
    () => false,
  );
  if (!ended) tally.faults.push(`${id}: its events do not come to an end`);
};
