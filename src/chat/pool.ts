import type { Agent, AgentProcess } from "../agents/agent.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import type { AgentPackage, LoadedAgent } from "../profiles/agent-package.ts";
import { turnFailure } from "./failure.ts";
import type { Workspaces } from "./workspaces.ts";

type Dependencies = {
  cli: Agent;
  agent: Pick<AgentPackage, "read" | "materialise" | "discard">;
  workspaces: Pick<Workspaces, "pathOf" | "use">;
  limits: { prewarmed: number; idle: number; idleSeconds: number };
  newId: () => string;
  /** Prefix of process ids, by which a later start recognises what an earlier one left. */
  idPrefix: string;
  log: Log;
};

/** A process with the facts that decide which turns it can run. */
export type WarmProcess = {
  process: AgentProcess;
  cwd: string;
  /** Start options, which cannot be changed any more. */
  variant: string;
  /** System prompt appended with its first turn; undefined: it had none. */
  appended: string | null | undefined;
  /** Set by an earlier turn. */
  effort: string | null;
  /** Its session continues one that had a turn. */
  resumes: boolean;
};

/** `version`: of the conversation after the process's last turn. */
type IdleProcess = { warm: WarmProcess; since: number; version: string };

export type ProcessOptions = {
  loaded: LoadedAgent;
  /**
   * In the CLI's terms; null: the agent's own. A running process could change it, but the CLI then shows the model a
   * command.
   */
  model: string | null;
  maxTurns: number | null;
  disabledMcpServers: readonly string[];
};

/**
 * The agent's processes. One begins as `prewarmed` (started ahead of need, has no conversation yet) or is started for a
 * turn; between the turns of its conversation it is `idle`; it ends when it is outdated, unused for too long, or one too
 * many. Its configuration goes with it.
 */
export const openPool = (deps: Dependencies) => ({
  ...deps,
  living: new Set<WarmProcess>(),
  prewarmed: new Set<WarmProcess>(),
  /** By conversation, least recently used first. */
  idle: new Map<string, IdleProcess>(),
  /** Conversations whose process is ending: another must not continue the session before that. */
  ending: new Map<string, Promise<void>>(),
  refilling: null as Promise<void> | null,
  /** Until when prewarming pauses after a failure: ms of `performance.now()`. */
  pausedUntil: 0,
  closed: false,
});
export type Pool = ReturnType<typeof openPool>;

/** Equal for interchangeable processes. */
export const variantOf = ({ loaded, model, maxTurns, disabledMcpServers }: ProcessOptions): string =>
  JSON.stringify([loaded.fingerprint, model, maxTurns, [...new Set(disabledMcpServers)].toSorted()]);

/** Options of a conversation that asks for nothing special. */
const defaultOptions = async ({ agent }: Pool): Promise<ProcessOptions> => ({
  loaded: await agent.read(),
  model: null,
  maxTurns: null,
  disabledMcpServers: [],
});

const isDefault = (variant: string): boolean => variant.endsWith(",null,null,[]]");

/** A process with a new session: a prewarmed one if one fits. `wasIdle`: it may have died while it waited. */
export const takeFresh = async (
  pool: Pool,
  wanted: ProcessOptions,
): Promise<{ warm: WarmProcess; wasIdle: boolean }> => {
  const variant = variantOf(wanted);
  for (const warm of pool.prewarmed) {
    if (warm.variant !== variant || !warm.process.isIdle()) continue;
    pool.prewarmed.delete(warm);
    return { warm, wasIdle: true };
  }
  return { warm: await startFresh(pool, wanted), wasIdle: false };
};

const startFresh = (pool: Pool, wanted: ProcessOptions): Promise<WarmProcess> => {
  const id = pool.newId();
  return startProcess(pool, wanted, { id, resumeFrom: null, cwd: pool.workspaces.pathOf(id) });
};

export const startProcess = async (
  pool: Pool,
  wanted: ProcessOptions,
  { cwd, ...session }: { id: string; resumeFrom: string | null; cwd: string },
): Promise<WarmProcess> => {
  const id = `${pool.idPrefix}${pool.newId()}`;
  const { model, maxTurns, disabledMcpServers } = wanted;
  try {
    await pool.workspaces.use(cwd);
    const launch = await pool.agent.materialise({ processId: id, cwd, model, maxTurns, disabledMcpServers });
    const started = await pool.cli.start({ id, attempt: 1, cwd, launch, session });
    if (!started.ok) throw turnFailure(started.outcome, new AbortController().signal);
    const { process } = started;
    const resumes = session.resumeFrom !== null;
    const warm = { process, cwd, variant: variantOf(wanted), appended: undefined, effort: null, resumes };
    pool.living.add(warm);
    void process.ended.then(() => (pool.living.delete(warm), discard(pool, id)));
    return warm;
  } catch (error) {
    await discard(pool, id);
    if (error instanceof ServiceError) throw error;
    throw new ServiceError("agent_failed", `The agent could not be started: ${String(error)}`, {
      cause: error,
    });
  }
};

/** Removes the configuration that an ended process leaves behind. */
const discard = ({ agent, log }: Pool, id: string): Promise<void> =>
  agent
    .discard(id)
    .catch((err: unknown) => log.warn({ err }, "the configuration of an agent process could not be removed"));

/** The conversation's idle process if it `fits`; null: there is none any more. */
export const takeIdle = async (
  pool: Pool,
  key: string,
  fits: (idle: IdleProcess) => boolean,
): Promise<WarmProcess | null> => {
  const found = pool.idle.get(key);
  if (found === undefined || !found.warm.process.isIdle() || !fits(found)) {
    await endIdle(pool, key);
    return null;
  }
  pool.idle.delete(key);
  return found.warm;
};

/** Keeps a process for its conversation's next turn, within the limits. */
export const putIdle = (pool: Pool, key: string, warm: WarmProcess, version: string): void => {
  pool.idle.set(key, { warm, since: performance.now(), version });
  if (pool.limits.idleSeconds === 0 || !warm.process.isIdle()) return void endIdle(pool, key);
  void warm.process.ended.then(() => pool.idle.get(key)?.warm === warm && pool.idle.delete(key));
  for (const oldest of pool.idle.keys()) {
    if (pool.idle.size <= pool.limits.idle) break;
    void endIdle(pool, oldest);
  }
};

/** Resolves when no process of the conversation is idle or ending. */
const endIdle = async ({ idle, ending }: Pool, key: string): Promise<void> => {
  const found = idle.get(key);
  if (found !== undefined) {
    idle.delete(key);
    const ended = found.warm.process.end().finally(() => ending.get(key) === ended && ending.delete(key));
    ending.set(key, ended);
  }
  await ending.get(key);
};

/** Ends processes that are idle for too long or outdated, and prewarms. Call it every few seconds. */
export const prune = async (pool: Pool): Promise<void> => {
  const current = variantOf(await defaultOptions(pool));
  const oldest = performance.now() - pool.limits.idleSeconds * 1000;
  const over = [...pool.idle].filter(
    ([, { warm, since }]) => since < oldest || (isDefault(warm.variant) && warm.variant !== current),
  );
  prewarm(pool);
  await Promise.all(over.map(([key]) => endIdle(pool, key)));
};

/** Starts missing prewarmed processes and replaces outdated ones, in the background. */
export const prewarm = (pool: Pool): void => {
  if (pool.limits.prewarmed === 0 || pool.closed || pool.refilling !== null) return;
  if (performance.now() < pool.pausedUntil) return;
  pool.refilling = refill(pool)
    .catch((err: unknown) => {
      pauseRefill(pool);
      pool.log.warn({ err }, "no agent process could be started ahead of need; it is tried again");
    })
    .finally(() => (pool.refilling = null));
};

const refill = async (pool: Pool): Promise<void> => {
  const { prewarmed, limits } = pool;
  const wanted = await defaultOptions(pool);
  const variant = variantOf(wanted);
  for (const warm of [...prewarmed].filter((each) => each.variant !== variant)) {
    prewarmed.delete(warm);
    void warm.process.end();
  }
  // Processes that have just started may have ended already.
  while (!pool.closed && prewarmed.size < limits.prewarmed && performance.now() >= pool.pausedUntil) {
    const warm = await startFresh(pool, wanted);
    prewarmed.add(warm);
    // One that ends by itself would be started again and again.
    void warm.process.ended.then(() => prewarmed.delete(warm) && pauseRefill(pool));
  }
};

const pauseRefill = (pool: Pool): void => void (pool.pausedUntil = performance.now() + pauseMs);

const pauseMs = 10_000;

/** Ends all processes, and starts no more. */
export const closePool = async (pool: Pool): Promise<void> => {
  pool.closed = true;
  await pool.refilling;
  pool.prewarmed.clear();
  await Promise.all(Array.from(pool.living, ({ process }) => process.end()));
};
