import { randomUUID } from "node:crypto";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Agent } from "../agents/agent.ts";
import { createChat, type Chat } from "../chat/chat.ts";
import { createCompletions, openCompletionSpool, type Completions } from "../chat/completions.ts";
import { createEngine, type ObserveTurn, type RequireAgent } from "../chat/engine.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Settings } from "../config/variables.ts";
import type { Log } from "../lib/log.ts";
import type { EventBus } from "../store/event-bus.ts";
import { createAgentPackage } from "../profiles/hub-agent.ts";
import type { CompanionReader } from "../profiles/roots.ts";
import { createClockCheck } from "./clock-check.ts";
import { startRepeating } from "./retention.ts";
import type { Stores } from "./stores.ts";

/** The part of the service that answers chat completions. */
export type AgentMode = {
  chat: Chat;
  completions: Completions;
  bus: EventBus;
  /** For metrics: turns in flight, and agent processes. */
  counts: () => { turns: number; processes: number };
  /** Prewarms processes; begins to settle what lost instances left and to end outdated processes. */
  start: () => void;
  /** Resolves when no turn is in flight, or the signal aborts. */
  idle: (signal: AbortSignal) => Promise<void>;
  /** Ends all turns and processes. */
  stop: () => Promise<void>;
};

type Dependencies = {
  settings: Settings;
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
  now: () => Date;
  log: Log;
};

/**
 * Null: agent mode is off.
 * @throws ServiceError with a sentence for the operator when the agent cannot be loaded
 */
export const openAgentMode = async (deps: Dependencies): Promise<AgentMode | null> => {
  const { settings, companions, cli, stores, self, mark, directory, isDraining, isAlive } = deps;
  const { observeTurn, requireAgent, now, log } = deps;
  if (stores.agentMode === null) return null;
  const { conversations, completions: completionStore, visibilities, bus } = stores.agentMode;
  const agent = createAgentPackage({ settings, companions, home: homedir(), log });
  await agent.read().catch((error: unknown) => {
    if (!(error instanceof ServiceError) || error.code !== "starting") throw error;
    log.warn(error.message);
  });
  const newId = randomUUID;
  const engine = createEngine({
    cli,
    agent,
    conversations,
    locks: stores.locks,
    settings,
    isDraining,
    observeTurn,
    now,
    newId,
    idPrefix: `agent-${mark}-`,
    log,
  });
  await engine.prepare();
  const chat = createChat({ engine, agent, requireAgent, visibilities, bus, settings, now, newId, log });
  const completions = createCompletions({
    engine,
    store: completionStore,
    spool: await openCompletionSpool(join(directory, "spool", "completions"), log),
    bus,
    agentPackage: agent,
    visibilities,
    requireAgent,
    settings,
    instance: self,
    now,
    log,
  });
  let housekeeper: ReturnType<typeof startRepeating> | null = null;
  const mayDelete = createClockCheck({ now, log });
  const applyRetention = async (): Promise<void> => {
    const isSure = mayDelete();
    await engine.prune(isSure);
    await completions.settle(({ podName, epoch }) =>
      podName === self.podName ? epoch === self.epoch : isAlive(podName),
    );
    if (isSure) await completionStore.expire(now());
  };

  return {
    chat,
    completions,
    bus,
    counts: engine.counts,
    start: () => {
      engine.start();
      housekeeper = startRepeating(
        () =>
          applyRetention().catch((err: unknown) => log.debug({ err }, "retention of agent mode was put off")),
        5000,
      );
    },
    idle: engine.idle,
    stop: async () => {
      await housekeeper?.stop();
      await Promise.all([engine.stop(), completions.stop()]);
    },
  };
};
