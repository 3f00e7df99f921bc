import { isFinal } from "../../src/contract/job.ts";
import type { JobRecord } from "../../src/store/job-record.ts";
import { agentProcesses } from "../processes.ts";
import { until } from "../until.ts";
import type { Hit, InstanceTally } from "./instance-tally.ts";
import type { Instance, World } from "./instance-world.ts";

type Measuring = {
  tally: InstanceTally;
  /** Whether what takes longer than it may counts as a fault; the longest times are told in any case. */
  limits?: boolean;
};

/**
 * Milliseconds that each may take. A clean-up may wait for the repository's lock: until the lease of another instance
 * that was killed with it expires (10 s), and then for its turn.
 */
const limit = { byOthers: 20_000, byRestart: 5000, cleanUp: 16_000, afterThaw: 1000 };

type Restart = { instance: Instance; met: Hit[]; options: Measuring };

/** Starts it again; it settles what it had left, cleans up after it and ends what is left of its agents. */
export const restart = async (world: World, { instance, met, options }: Restart): Promise<void> => {
  await world.start(instance);
  const listening = performance.now();
  await takeTime("byRestart", listening, options, () => allBut(world, met, isSettled));
  await takeTime("cleanUp", listening, options, async () => [
    ...(await allBut(world, met, isCleanedUp)),
    ...agentsOf(met),
  ]);
};

/** Lets it go on; it ends the agents of what is not its own any more, and cleans up after them. */
export const thaw = async (world: World, { instance, met, options }: Restart): Promise<void> => {
  const thawed = performance.now();
  world.thaw(instance);
  await takeTime("afterThaw", thawed, options, () => Promise.resolve(agentsOf(met)));
  await takeTime("cleanUp", thawed, options, () => allBut(world, met, isCleanedUp));
};

const agentsOf = (hits: Hit[]): string[] =>
  agentProcesses()
    .filter(({ job, attempt }) => hits.some((hit) => hit.id === job && hit.attempt === attempt))
    .map(({ pid, job }) => `process ${pid} of ${job}`);

type Waiting = { met: Hit[]; since: number; options: Measuring };

export const untilOthersSettled = async (world: World, { met, since, options }: Waiting): Promise<void> => {
  const running = met.filter((hit) => hit.running);
  if (running.length === 0) return;
  await takeTime("byOthers", since, options, () => allBut(world, running, isSettled));
};

/** Waits until nothing is pending, and notes how long that took. */
const takeTime = async (
  what: keyof typeof limit,
  since: number,
  { tally, limits = true }: Measuring,
  pending: () => Promise<string[]>,
): Promise<void> => {
  let late: string[] = [];
  await until(
    async () => {
      const left = await pending();
      if (late.length === 0 && performance.now() - since > limit[what]) late = left;
      return left.length === 0;
    },
    { seconds: 60, what: `settling (${what})` },
  ).catch((error: unknown) => tally.faults.push(String(error)));
  const took = Math.round(performance.now() - since);
  tally.slowest[what] = Math.max(tally.slowest[what], took);
  if (limits && took > limit[what]) tally.faults.push(`${what} took ${took} ms: ${late.join(", ")}`);
};

/** Those of which it does not hold yet. */
const allBut = async (
  world: World,
  hits: Hit[],
  condition: (record: JobRecord, hit: Hit) => boolean,
): Promise<string[]> => {
  const records = await Promise.all(hits.map(({ id }) => world.record(id)));
  return hits.flatMap((hit, at) => {
    const record = records[at] ?? null;
    if (record === null || condition(record, hit)) return [];
    return [`${hit.id} (met in "${hit.stage}", now ${record.status})`];
  });
};

const isOthers = (record: JobRecord, { attempt, epoch: was }: Hit): boolean =>
  record.status === "queued" || record.attempt !== attempt || record.instance_epoch !== was;

const isSettled = (record: JobRecord, hit: Hit): boolean => isOthers(record, hit) || isFinal(record.status);

const isCleanedUp = (record: JobRecord, hit: Hit): boolean =>
  isOthers(record, hit) || (isFinal(record.status) && !record.unsettled);
