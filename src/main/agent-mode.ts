import { homedir } from "node:os";
import { join } from "node:path";
import type { Agent } from "../agents/agent.ts";
import { createChat } from "../chat/chat.ts";
import { createCompletions, openCompletionSpool } from "../chat/completions.ts";
import { createEngine, type ObserveTurn, type RequireAgent } from "../chat/engine.ts";
import { ServiceError } from "../contract/errors.ts";
import { createAgentPackage } from "../profiles/hub-agent.ts";
import type { CompanionReader } from "../profiles/roots.ts";
import { boundaryOf } from "../profiles/sandbox-policy.ts";
import type { ServiceContext } from "./context.ts";
import { startRetention } from "./retention.ts";
import type { Stores } from "./stores.ts";

type Dependencies = ServiceContext & {
  companions: CompanionReader;
  /** Starts the processes that answer. */
  cli: Agent;
  stores: Stores;
  self: { podName: string; epoch: string };
  /** Marks the processes of this instance. */
  mark: string;
  /** Of this instance alone. */
  directory: string;
  isDraining: () => boolean;
  isAlive: (podName: string) => Promise<boolean>;
  observeTurn: ObserveTurn;
  requireAgent: RequireAgent;
};

/** The part of the service that answers chat completions. */
export type AgentMode = NonNullable<Awaited<ReturnType<typeof openAgentMode>>>;

/**
 * Null: agent mode is off.
 * @throws ServiceError with a sentence for the operator when the agent cannot be loaded
 */
export const openAgentMode = async (deps: Dependencies) => {
  const { settings, companions, stores, self, directory, now, log } = deps;
  if (stores.agentMode === null) return null;
  const { conversations, completions: store, visibilities, bus } = stores.agentMode;
  const agent = createAgentPackage({
    settings,
    companions,
    boundary: boundaryOf(settings, homedir()),
    home: homedir(),
    log,
  });
  await agent.read().catch((error: unknown) => {
    if (!(error instanceof ServiceError) || error.code !== "starting") throw error;
    log.warn(error.message);
  });
  const parts = { ...deps, locks: stores.locks, conversations, visibilities, bus, agent };
  const engine = createEngine({ ...parts, idPrefix: `agent-${deps.mark}-` });
  await engine.prepare();
  const spool = await openCompletionSpool(join(directory, "spool", "completions"), log);
  const chat = createChat({ ...parts, engine });
  const completions = createCompletions({
    ...parts,
    engine,
    store,
    spool,
    agentPackage: agent,
    instance: self,
  });
  const isLiving = ({ podName, epoch }: { podName: string; epoch: string }) =>
    podName === self.podName ? epoch === self.epoch : deps.isAlive(podName);
  let retention: ReturnType<typeof startRetention> | null = null;

  return {
    chat,
    completions,
    bus,
    /** For metrics: turns in flight, and agent processes. */
    counts: engine.counts,
    /** Prewarms processes; begins to settle what lost instances left and to end outdated processes. */
    start: (): void => {
      engine.start();
      retention = startRetention(deps, 5000, async (_, isSure) => {
        await engine.prune(isSure);
        await completions.settle(isLiving);
        if (isSure) await store.expire(now());
      });
    },
    /** Resolves when no turn is in flight, or the signal aborts. */
    idle: engine.idle,
    /** Ends all turns and processes. */
    stop: async (): Promise<void> => {
      await retention?.stop();
      await Promise.all([engine.stop(), completions.stop()]);
    },
  };
};
