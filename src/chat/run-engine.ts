import type { Agent } from "../agents/agent.ts";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import type { AgentPackage } from "../profiles/agent-package.ts";
import type { ConversationStore } from "../store/conversation-store.ts";
import type { Locks } from "../store/locks.ts";
import { createConversationTurns, type HeldConversation } from "./conversation-turns.ts";
import { createTurnRunner } from "./engine-turn.ts";
import type { ObserveTurn, Engine, EngineOutcome, EngineTurn, Permit } from "./engine.ts";
import { closePool, openPool, prewarm, prune } from "./pool.ts";
import { turnFailure } from "./failure.ts";
import { createWorkspaces } from "./workspaces.ts";
import { createNotifier } from "../lib/notifier.ts";

type Dependencies = {
  cli: Agent;
  agent: AgentPackage;
  conversations: ConversationStore;
  locks: Pick<Locks, "take">;
  settings: Pick<
    Settings,
    | "agentModeMaxConcurrent"
    | "agentModeWarmProcesses"
    | "agentModeKeepAlive"
    | "agentModeIdleProcesses"
    | "agentModeWorkspaces"
    | "agentModeConversationTtl"
  >;
  /** Whether new turns are refused for now, although the service continues. */
  isDraining: () => boolean;
  observeTurn: ObserveTurn;
  now: () => Date;
  newId: () => string;
  /** See `pool.ts`. */
  idPrefix: string;
  log: Log;
};

export type RunningEngine = Engine & {
  /** Removes what an earlier start left; before any turn. */
  prepare: () => Promise<void>;
  /** Prewarms processes. */
  start: () => void;
  /**
   * To be called every few seconds: ends processes that are idle too long or outdated. Deletes what is old, unless the clock is
   * in doubt.
   */
  prune: (mayDelete: boolean) => Promise<void>;
  /** Turns in flight, and processes of the agent. */
  counts: () => { turns: number; processes: number };
  /** Resolves when no turn is in flight, or the signal aborts. */
  idle: (signal: AbortSignal) => Promise<void>;
  /** Accepts no more turns, ends those in flight and all processes. Resolves when nothing is left. */
  stop: () => Promise<void>;
};

export const createEngine = (deps: Dependencies): RunningEngine => {
  const { agent, settings, now } = deps;
  const workspaces = createWorkspaces({ root: settings.agentModeWorkspaces, agent: agent.name, now });
  const pool = openPool({
    ...deps,
    workspaces,
    limits: {
      prewarmed: settings.agentModeWarmProcesses,
      idle: settings.agentModeIdleProcesses,
      idleSeconds: settings.agentModeKeepAlive,
    },
  });
  const permits = createSemaphore(settings.agentModeMaxConcurrent);
  const turns = createConversationTurns(deps.locks);
  const runner = createTurnRunner({ ...deps, pool });
  const ending = new AbortController();
  const settling = new Set<Promise<void>>();
  /**
   * Conversations whose answer is in flight here. They stay reserved a moment longer, until their process is in the
   * pool.
   */
  const answering = new Set<string>();
  let swept = Number.NEGATIVE_INFINITY;

  const runHeld = async (
    turn: EngineTurn,
    deadline: number,
    held: HeldConversation | null,
  ): Promise<EngineOutcome> => {
    const lost = held === null ? [] : [held.lost];
    const signal = AbortSignal.any([turn.signal, ending.signal, ...lost]);
    const { conversation } = turn;
    if (conversation !== null) answering.add(conversation);
    const observer = deps.observeTurn({ agent: agent.name, prompt: promptOf(turn) });
    const onEvents: EngineTurn["onEvents"] = (events) => {
      turn.onEvents(events);
      observer.events(events);
    };
    const ran = await runner
      .run({ ...turn, onEvents, signal }, deadline)
      .catch(async (error: unknown) => {
        await held?.release();
        throw error;
      })
      .finally(() => conversation !== null && answering.delete(conversation));
    // The answer does not wait for the clean-up after it; the conversation's next turn does.
    const settled = ran.settled.then(held?.release).finally(() => settling.delete(settled));
    settling.add(settled);
    const { outcome, sessionId } = ran;
    const { principal, model } = turn;
    observer.ended({ id: deps.newId(), endedAt: now(), profile: agent.profile, principal, model, outcome });
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
    const free = answering.has(conversation)
      ? null
      : await turns.hold(conversation, settlingSeconds, waiting).catch(unlessBusy);
    return runHeld(free === null ? { ...turn, conversation: null } : turn, deadline, free);
  };

  return {
    admit: () => {
      if (deps.isDraining()) throw closing();
      return permits.acquire();
    },
    run,
    prepare: async () => {
      await workspaces.prepare();
      await agent.discardEarlier(deps.idPrefix);
    },
    start: () => prewarm(pool),
    prune: async (mayDelete) => {
      await prune(pool);
      if (!mayDelete || performance.now() - swept < sweepMs) return;
      swept = performance.now();
      await deps.conversations.expire(now());
      const before = now().getTime() - settings.agentModeConversationTtl * 1000;
      await workspaces.removeUnused(before, new Set(pool.users.keys()));
    },
    counts: () => ({ turns: permits.taken(), processes: pool.living.size }),
    idle: permits.idle,
    stop: async () => {
      permits.close(closing());
      ending.abort(closing());
      await permits.idle(AbortSignal.timeout(stopMs));
      await Promise.all(settling);
      await closePool(pool);
    },
  };
};

/** Interval of sweeps through working directories; how long turns may take to end; milliseconds. */
const sweepMs = 60_000;
const stopMs = 8000;

/** How long recording a conversation and pooling its process may take after the answer. */
const settlingSeconds = 2;

const unlessBusy = (error: unknown): null => {
  if (error instanceof ServiceError && error.code === "conversation_busy") return null;
  throw error;
};

const closing = (): ServiceError =>
  new ServiceError("draining", "The service is shutting down; ask again, the conversation can be resumed", {
    retryAfter: 5,
  });

/** What the user says, for those who observe. */
const promptOf = ({ followUp }: EngineTurn): string =>
  followUp.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");

const takenAway = (): ServiceError =>
  new ServiceError(
    "store_unavailable",
    "The conversation could not be reserved while the store was unreachable; ask again",
  );

/** Permits for turns, `max` at once. */
const createSemaphore = (max: number) => {
  let taken = 0;
  let closed: ServiceError | null = null;
  const allGiven = createNotifier();

  return {
    /** @throws ServiceError `capacity_full`, or the reason of `close` */
    acquire: (): Permit => {
      if (closed !== null) throw closed;
      if (taken >= max) throw full(max);
      taken += 1;
      let held = true;
      return {
        release: () => {
          if (!held) return;
          held = false;
          taken -= 1;
          if (taken === 0) allGiven.notify("");
        },
      };
    },
    taken: (): number => taken,
    /** Resolves when no permit is held, or the signal aborts. */
    idle: async (signal: AbortSignal): Promise<void> => {
      if (taken > 0) await allGiven.waitFor("", signal);
    },
    close: (reason: ServiceError): void => void (closed = reason),
  };
};

const full = (max: number): ServiceError =>
  new ServiceError(
    "capacity_full",
    `${max === 1 ? "The only place" : `All ${max} places`} for answers ${max === 1 ? "is" : "are"} taken; ask again in a few seconds, or raise AGENT_MODE_MAX_CONCURRENT`,
    { retryAfter: 5 },
  );
