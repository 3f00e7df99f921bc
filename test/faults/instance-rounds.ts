import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isFinal } from "../../src/contract/job.ts";
import { until } from "../until.ts";
import { checkJobs, checkRest } from "./instance-checks.ts";
import { cancelSoon, prepareWorktrees, submitOne, type Accepted, type Prepared } from "./instance-load.ts";
import { restart, thaw, untilOthersSettled } from "./instance-settling.ts";
import { meet, type Fate, type Hit, type InstanceTally } from "./instance-tally.ts";
import { openWindows, type Window, type Windows } from "./instance-windows.ts";
import { createWorld, type Instance, type World } from "./instance-world.ts";

type Options = {
  directory: string;
  kvUrl: string;
  prefix: string;
  kills: number;
  /** How many kills come between two looks at everything. */
  perEpoch?: number;
  /** Variables over the defaults, for every instance. */
  env?: Record<string, string | undefined>;
  /** Whether what takes longer than it may counts as a fault; the longest times are told in any case. */
  limits?: boolean;
  /** A number in [0, 1), as Math.random. */
  random: () => number;
  tally: InstanceTally;
  onKill?: (tally: InstanceTally) => void;
};

const mostUnderWay = 12;

/** What each of some strikes waits for; null: nothing, it comes when it comes. */
const waits: readonly (Window | null)[] = [
  "after the push",
  "inside settling",
  null,
  "before the outcome",
  "inside settling",
  null,
];

/**
 * Kills instances with SIGKILL at random moments, and in windows of which a kill must not lose anything, while they run jobs; starts them again at once, once the others have
 * settled their runs, or only at the end. Adds what it saw, and every rule that it saw broken, to the tally.
 */
export const instanceRounds = async (options: Options): Promise<void> => {
  const { directory, kvUrl, prefix, kills, env = {}, perEpoch = 25, tally } = options;
  const sandboxed = { ...env, SERVICE_AGENT_SANDBOX: "bwrap" };
  const world = await createWorld({
    directory,
    kvUrl,
    prefix,
    names: ["one", "two", "three"],
    env: sandboxed,
  });
  const windows = new Map<Instance, Windows>();
  for (const instance of world.instances) {
    const opened = await openWindows(join(directory, `${instance.name}-windows`), kvUrl);
    windows.set(instance, opened);
    instance.env = opened.env;
  }
  await Promise.all(world.instances.map(world.start));
  for (let done = 0; done < kills; done += perEpoch) {
    const prepared = await prepareWorktrees(world);
    await epoch(world, { ...options, windows, kills: Math.min(perEpoch, kills - done) }, prepared);
  }
  await Promise.all(world.living().map(({ service }) => service.stop()));
  tally.agents += (await world.notes()).filter(({ pid }) => pid !== undefined).length;
};

type Held = Options & { windows: ReadonlyMap<Instance, Windows> };

/** What is going on between two looks at everything. */
type Epoch = {
  world: World;
  options: Held;
  strikes: number;
  prepared: Prepared;
  accepted: Accepted[];
  hits: Hit[];
  cancels: Promise<void>[];
  /** Instances that are down or frozen, until what the kill met is settled and they are back. */
  watched: Map<string, Promise<void>>;
  /** While one is down another is left alone: it is the one that has to notice. */
  keeper: Instance | null;
  /** Ids of jobs that may not have ended yet. */
  open: string[];
};

const epoch = async (world: World, options: Held, prepared: Prepared): Promise<void> => {
  const { kills, tally } = options;
  const scene: Epoch = {
    world,
    options,
    strikes: 0,
    prepared,
    accepted: [],
    hits: [],
    cancels: [],
    open: [],
    watched: new Map(),
    keeper: null,
  };
  for (const goal = tally.kills + kills; tally.kills < goal;) {
    await load(scene);
    await delay(options.random() * 1000);
    await strike(scene);
  }
  const { accepted, hits } = scene;
  await Promise.all([...scene.watched.values(), ...scene.cancels]);
  for (const instance of world.instances)
    if (instance.service === null) await restart(world, { instance, met: hits, options });
  await until(async () => (await notOver(world, accepted)).length === 0, { seconds: 90 }).catch(async () =>
    tally.faults.push(`not over: ${(await notOver(world, accepted)).join(", ")}`),
  );
  await checkJobs(world, { accepted, hits, tally });
  await checkRest(world, { accepted, tally, patient: options.limits !== false });
};

const load = async (scene: Epoch): Promise<void> => {
  const { world, prepared, accepted, cancels } = scene;
  const { random } = scene.options;
  const records = await Promise.all(scene.open.map(world.record));
  scene.open = scene.open.filter((_, at) => !isFinal(records[at]?.status ?? "failed"));
  const wanted = Math.max(1, Math.min(4, mostUnderWay - scene.open.length));
  const jobs = await Promise.all(
    Array.from({ length: wanted }, () => submitOne(world, { random, prepared })),
  );
  accepted.push(...jobs);
  scene.open.push(...jobs.map(({ id }) => id));
  for (const job of jobs) if (random() < 0.15) cancels.push(cancelSoon(world, job, random));
};

/** Kills or freezes one of those that are up. */
const strike = async (scene: Epoch): Promise<void> => {
  const { world, options, watched } = scene;
  const { random, tally } = options;
  if (watched.size === 0) scene.keeper = null;
  const instance = pickOne(upAmong(scene), random);
  const window = waits[(scene.strikes += 1) % waits.length] ?? null;
  const fate = window === "inside settling" ? "atOnce" : chooseFate(scene);
  if (window === "inside settling") await agentAtWork(scene, instance);
  if (fate === "frozen") world.freeze(instance);
  else await kill(scene, instance, window === "inside settling" ? null : window);
  const since = performance.now();
  const met = await meet(world, instance.name, scene.accepted, tally);
  scene.hits.push(...met);
  tally.fates[fate] += 1;
  const comesBack = { instance, met, options };
  // Only work that an agent may have left is saved.
  if (window === "inside settling" && met.some(({ spawned }) => spawned)) {
    const held = hold(scene, instance, window);
    await world.start(instance);
    await held;
    await kill(scene, instance, null);
    const again = await meet(world, instance.name, scene.accepted, tally);
    scene.hits.push(...again);
    met.push(...again);
  }
  if (fate === "atOnce") return await restart(world, comesBack);
  scene.keeper ??= pickOne(upAmong(scene), random);
  const settled = untilOthersSettled(world, { met, since, options });
  const backs = {
    frozen: () => thaw(world, comesBack),
    later: () => restart(world, comesBack),
    atTheEnd: () => undefined,
  };
  const back = settled.then(backs[fate]);
  watched.set(
    instance.name,
    back.finally(() => watched.delete(instance.name)),
  );
};

/** Only then there is something to save. Gives up after 5 s: the instance may have no job. */
const agentAtWork = async ({ world, open }: Epoch, { name }: Instance): Promise<void> => {
  const isAtWork = async (): Promise<boolean> => {
    const records = await Promise.all(open.map(world.record));
    return records.some(
      (record) =>
        record?.pod_name === name &&
        record.status === "running" &&
        record.stages.at(-1)?.stage === "first_output",
    );
  };
  await until(isAtWork, { seconds: 5 }).catch(() => undefined);
};

const kill = async (scene: Epoch, instance: Instance, window: Window | null): Promise<void> => {
  const { world, options } = scene;
  if (window !== null) await hold(scene, instance, window);
  await world.kill(instance);
  options.tally.kills += 1;
  options.onKill?.(options.tally);
};

const hold = async ({ options }: Epoch, instance: Instance, window: Window): Promise<void> => {
  if (await options.windows.get(instance)?.hold(window)) options.tally.windows[window] += 1;
};

/** Two that are up must be left, one to notice and one to be struck meanwhile, or the struck one comes back at once. */
const chooseFate = ({ world, watched, options: { random } }: Epoch): Fate => {
  const dice = random();
  if (world.living().length < 3 || watched.size > 0 || dice < 0.45) return "atOnce";
  if (dice < 0.85) return "later";
  return dice < 0.92 ? "atTheEnd" : "frozen";
};

/** Those that may be struck: one that is under watch would take longer to settle what it had for that alone. */
const upAmong = ({ world, keeper, watched }: Pick<Epoch, "world" | "keeper" | "watched">): Instance[] =>
  world.instances.filter((each) => each.service !== null && each !== keeper && !watched.has(each.name));

const pickOne = <Value>(values: Value[], random: () => number): Value => {
  const picked = values[Math.floor(random() * values.length)];
  if (picked === undefined) throw new Error("there is nothing to pick from");
  return picked;
};

const notOver = async (world: World, accepted: Accepted[]): Promise<string[]> => {
  const records = await Promise.all(accepted.map(({ id }) => world.record(id)));
  return records
    .filter((record) => record !== null && !(isFinal(record.status) && !record.unsettled))
    .map(
      (record) => `${record?.id} (${record?.status} on ${record?.pod_name}, bound to ${record?.bound_to})`,
    );
};
