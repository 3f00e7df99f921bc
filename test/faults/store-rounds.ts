import { setTimeout as delay } from "node:timers/promises";
import { isFinal } from "../../src/contract/job.ts";
import { ClientError } from "../../src/client/client-error.ts";
import type { TestRedis } from "../redis.ts";
import { startRedisSentinel } from "../redis-sentinel.ts";
import type { Service } from "../service-process.ts";
import { until } from "../until.ts";
import { readJournal, runsIn } from "./store-journal.ts";
import { submitOnce, type Answer } from "./store-submit.ts";
import { createStoreWorld, nth, startPromptRedis } from "./store-world.ts";

type How = "kill" | "freeze" | "fail-over";

type Options = {
  directory: string;
  /** How often the store goes away. */
  rounds: number;
  /** A number in [0, 1), as Math.random. */
  random: () => number;
  /**
   * In turns. `kill`: SIGKILL, and started again after a moment. `freeze`: it does not answer for 5 s; what was sent it does
   * afterwards. `fail-over`: it is killed, and its replica, which got nothing for up to two seconds, takes over.
   */
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
const longestRefusal = { kill: 2000, freeze: 4000, "fail-over": 4000 };

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
  const store = hows.includes("fail-over")
    ? await withReplica(random)
    : alone(await startPromptRedis(), random);
  const { journal, remote, services } = await createStoreWorld({
    kvUrl: store.url,
    directory,
    names: ["i1", "i2"],
    // A machine that is too busy to renew shorter leases would lose jobs for another reason.
    ...(hows.includes("fail-over") && { env: { SERVICE_INSTANCE_LEASE: "10" } }),
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
  const watched = watchEnds(services, tally);
  // An outage that is over only when a submission was refused needs one at any time.
  const load = startLoad(services, remote.path, hows.includes("fail-over") ? watched.ends : null);
  for (let round = 1; round <= rounds; round += 1) {
    await delay(100 + random() * 300);
    const how = hows[(round - 1) % hows.length] ?? "kill";
    await outage({ store, journal, tally, how, timed, refusals: load.refusals });
    onRound?.(round, tally);
  }
  const answers = await load.stop();
  noteAnswers(answers, tally, timed ? Math.max(...hows.map((how) => longestRefusal[how])) : Infinity);
  const ids = answers.flatMap(({ id }) => (id === null ? [] : [id]));
  await Promise.all(ids.map((id) => checkJob({ services, id, tally })));
  await watched.stop();
  const runs = await runsIn(journal);
  for (const id of ids) if (runs.get(id) !== 1) tally.faults.push(`${id} was run ${runs.get(id) ?? 0} times`);
  await Promise.all(services.map((service) => service.kill()));
  return tally;
};

/** `away`: resolves to what brings it back. */
type Store = { url: string; away: (how: How) => Promise<() => Promise<void>> };

const alone = (redis: TestRedis, random: () => number): Store => ({
  url: redis.url,
  away: async (how) => {
    if (how === "kill") await redis.kill();
    else redis.freeze();
    await delay(how === "freeze" ? 5000 : 150 + random() * 450);
    return how === "kill" ? redis.restart : async () => redis.thaw();
  },
});

const withReplica = async (random: () => number): Promise<Store> => {
  const { url, holdBack, killMaster, hasReplica } = await startRedisSentinel();
  return {
    url,
    away: async () => {
      await until(hasReplica, { seconds: 60, what: "the killed node to follow" });
      if (random() < 0.7) await holdBack();
      await delay(random() * 2000);
      const killed = await killMaster();
      return killed.restart;
    },
  };
};

/** Notes as a fault when a caller of either instance is told another state of a job after it was told its end. */
const watchEnds = (services: Service[], tally: Tally) => {
  const stopping = new AbortController();
  const ends = new Map<string, string>();
  const look = async ({ client }: Service): Promise<void> => {
    while (!stopping.signal.aborted) {
      // What is asked before another answer has come may be older than that.
      const before = new Map(ends);
      const { jobs } = await client.list_jobs({ limit: 100 }).catch(() => ({ jobs: [] }));
      for (const { id, status } of jobs) {
        const end = before.get(id);
        if (end !== undefined && end !== status) tally.faults.push(`${id} was told ${end}, then ${status}`);
        if (isFinal(status)) ends.set(id, status);
      }
      await delay(50);
    }
  };
  const looking = Promise.all(services.map(look));
  const stop = async (): Promise<void> => {
    stopping.abort();
    await looking;
  };
  return { ends, stop };
};

/** Most jobs that are on their way: a busy machine must not be left with more than it does in the time of a check. */
const mostOpen = 8;

/** Submits to one instance after the other, a little more than they can do, until told to stop. */
const startLoad = (services: Service[], repo: string, ends: ReadonlyMap<string, string> | null) => {
  const stopping = new AbortController();
  const answers: Answer[] = [];
  const client = async (first: number): Promise<void> => {
    for (let at = first; !stopping.signal.aborted; at += 2) {
      const isFull = (): boolean =>
        ends !== null && answers.filter(({ id }) => id !== null && !ends.has(id)).length >= mostOpen;
      await until(() => !isFull() || stopping.signal.aborted, { seconds: 240, what: "jobs to end" });
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
  store: Store;
  journal: string;
  tally: Tally;
  how: How;
  timed: boolean;
  /** How many submissions were refused so far. */
  refusals: () => number;
};

const outage = async ({ store, journal, tally, how, timed, refusals }: Outage): Promise<void> => {
  const before = await readJournal(journal);
  const refused = refusals();
  const bringBack = await store.away(how);
  tally.outages += 1;
  // On a busy machine a short outage could meet no submission, and would prove nothing.
  // A master that has been replaced answers again.
  await until(() => how === "fail-over" || refusals() > refused, {
    seconds: 60,
    what: "a submission to be refused",
  });
  await bringBack();
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
