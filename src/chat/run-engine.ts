import type { Agent } from "../agents/agent.ts";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import type { Redactor } from "../lib/redact.ts";
import type { AgentPackage } from "../profiles/agent-package.ts";
import type { ConversationStore } from "../store/conversation-store.ts";
import type { Locks } from "../store/locks.ts";
import { createConversationTurns, type Held } from "./conversation-turns.ts";
import { createTurnRunner } from "./engine-turn.ts";
import type { Engine, EngineOutcome, EngineTurn } from "./engine.ts";
import { createIdlePool } from "./idle-pool.ts";
import { createSemaphore } from "./semaphore.ts";
import { createWarmProcesses, isUsual, variantOf, type ProcessOptions } from "./processes.ts";
import { createPrewarmed } from "./prewarmed.ts";
import { turnFailure } from "./turn-failure.ts";
import { createWorkspaces } from "./workspaces.ts";

type Dependencies = {
  processes: Agent;
  agent: AgentPackage;
  conversations: ConversationStore;
  locks: Pick<Locks, "take">;
  settings: Pick<
    Settings,
    | "agentModeMaxConcurrent"
    | "agentModeWarmProcesses"
    | "agentModeKeepAlive"
    | "agentModeIdleProcesses"
    | "agentModeIdleMemory"
    | "agentModeWorkspaces"
    | "agentModeConversationTtl"
  >;
  /** Takes configured secrets out of what the agent says. */
  redact: Redactor;
  /** Whether new turns are refused for now, although the service goes on. */
  isDraining: () => boolean;
  now: () => Date;
  newId: () => string;
  /** See `processes.ts`. */
  idPrefix: string;
  log: Log;
};

export type RunningEngine = Engine & {
  /** Clears away what an earlier start has left; before any turn. */
  prepare: () => Promise<void>;
  /** Starts processes ahead of need. */
  start: () => void;
  /** To be called every second: ends processes that have waited too long or are out of date. */
  tidy: () => Promise<void>;
  /** Turns under way, and processes of the agent. */
  counts: () => { turns: number; processes: number };
  /** Resolves when no turn is under way, or the signal aborts. */
  idle: (signal: AbortSignal) => Promise<void>;
  /** Takes no more turns, ends those under way, and all processes. Resolves when nothing is left. */
  stop: () => Promise<void>;
};

export const createEngine = (deps: Dependencies): RunningEngine => {
  const { agent, settings, log, now } = deps;
  const workspaces = createWorkspaces({ root: settings.agentModeWorkspaces, agent: agent.name, now });
  const seats = createWarmProcesses({ ...deps, workspaces });
  const usual = async (): Promise<ProcessOptions> => ({
    loaded: await agent.read(),
    model: null,
    maxTurns: null,
    disabledMcpServers: [],
  });
  const spares = createPrewarmed({ seats, usual, count: settings.agentModeWarmProcesses, log });
  const kept = createIdlePool({
    limits: {
      count: settings.agentModeIdleProcesses,
      bytes: settings.agentModeIdleMemory * 1_048_576,
      seconds: settings.agentModeKeepAlive,
    },
    clock: () => performance.now(),
  });
  const places = createSemaphore(settings.agentModeMaxConcurrent);
  const turns = createConversationTurns(deps.locks);
  const runner = createTurnRunner({ ...deps, seats, spares, kept });
  const ending = new AbortController();
  const settling = new Set<Promise<void>>();
  /** Conversations whose answer is under way here. Held a moment longer, they are put away after it. */
  const speaking = new Set<string>();
  let swept = Number.NEGATIVE_INFINITY;

  const runHeld = async (turn: EngineTurn, deadline: number, held: Held | null): Promise<EngineOutcome> => {
    const lost = held === null ? [] : [held.lost];
    const signal = AbortSignal.any([turn.signal, ending.signal, ...lost]);
    const { conversation } = turn;
    if (conversation !== null) speaking.add(conversation);
    const ran = await runner
      .run({ ...turn, signal }, deadline)
      .catch(async (error: unknown) => {
        await held?.release();
        throw error;
      })
      .finally(() => conversation !== null && speaking.delete(conversation));
    // The answer need not wait for what is to be put away after it; the conversation's next turn does.
    const settled = ran.settled.then(held?.release).finally(() => settling.delete(settled));
    settling.add(settled);
    const { outcome, sessionId } = ran;
    if (outcome.ok) return { ...outcome, sessionId };
    throw held?.lost.aborted === true && outcome.reason === null ? takenAway() : turnFailure(outcome, signal);
  };

  const run: Engine["run"] = async (turn) => {
    const deadline = performance.now() + turn.timeoutSeconds * 1000;
    if (turn.conversation === null) return runHeld(turn, deadline, null);
    const { conversation, ifBusy, timeoutSeconds } = turn;
    const waiting = AbortSignal.any([turn.signal, ending.signal]);
    if (ifBusy === "wait")
      return runHeld(turn, deadline, await turns.hold(conversation, timeoutSeconds, waiting));
    const free = speaking.has(conversation)
      ? null
      : await turns.hold(conversation, settlingSeconds, waiting).catch(unlessBusy);
    return runHeld(free === null ? { ...turn, conversation: null } : turn, deadline, free);
  };

  return {
    admit: () => {
      if (deps.isDraining()) throw closing();
      return places.acquire();
    },
    run,
    prepare: async () => {
      await workspaces.prepare();
      await agent.discardLeft(deps.idPrefix);
    },
    start: spares.refill,
    tidy: async () => {
      const variant = variantOf(await usual());
      await kept.tidy((seat) => isUsual(seat.variant) && seat.variant !== variant);
      spares.refill();
      if (performance.now() - swept < sweepMs) return;
      swept = performance.now();
      await deps.conversations.expire(now());
      const before = now().getTime() - settings.agentModeConversationTtl * 1000;
      await workspaces.removeUnused(before, seats.directories());
    },
    counts: () => ({ turns: places.taken(), processes: seats.count() }),
    idle: places.idle,
    stop: async () => {
      places.close(closing());
      ending.abort(closing());
      await places.idle(AbortSignal.timeout(stopMs));
      await Promise.all(settling);
      await spares.stop();
      await kept.stop();
      await seats.endAll();
    },
  };
};

/** How often working directories are looked through, and how long turns that were asked to end may take; milliseconds. */
const sweepMs = 60_000;
const stopMs = 8000;

/** How long a conversation may take to be put away after its answer. */
const settlingSeconds = 2;

const unlessBusy = (error: unknown): null => {
  if (error instanceof ServiceError && error.code === "conversation_busy") return null;
  throw error;
};

const closing = (): ServiceError =>
  new ServiceError("draining", "The service is shutting down; ask again, the conversation can be resumed", {
    retryAfter: 5,
  });

const takenAway = (): ServiceError =>
  new ServiceError(
    "store_unavailable",
    "The conversation could not be held while the store was away; ask again",
  );
