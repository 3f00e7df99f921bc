import { setTimeout as delay } from "node:timers/promises";
import { completionTtl } from "../../test/ports/completion-store-suite.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import type { DisconnectPolicy } from "../config/formats.ts";
import { completionOperations } from "../contract/completion.ts";
import { ServiceError } from "../contract/errors.ts";
import type { RequestContext } from "../contract/operation.ts";
import { createLog } from "../lib/log.ts";
import type { AgentPackage } from "../profiles/agent-package.ts";
import { completionKind, createCompletionStore, type CompletionStore } from "../store/completion-store.ts";
import type { EventBus } from "../store/event-bus.ts";
import { openFilesRecords } from "../store/files-records.ts";
import { openLocalEventBus } from "../../test/open-stores.ts";
import { fromStart } from "../../test/ports/event-bus-suite.ts";
import { createVisibilityStore, visibilityKind } from "../store/visibility-store.ts";
import { createCompletions, openCompletionSpool } from "./completions.ts";
import type { TurnOutcome } from "../agents/agent.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { EngineEvent, EngineTurn } from "./engine.ts";
import { endedBy } from "./failure.ts";

export const outcome = (over: Partial<TurnOutcome> = {}): TurnOutcome => ({
  ok: true,
  prompted: true,
  reason: null,
  retryable: false,
  apiStatus: null,
  limitResetsAt: null,
  error: null,
  text: "the answer",
  report: null,
  deferred: false,
  exitCode: null,
  sessionId: "session-1",
  model: "claude-sonnet",
  numTurns: 2,
  costUsd: 0.25,
  costEstimated: false,
  usage: {
    input_tokens: 1,
    output_tokens: 2,
    cache_creation_input_tokens: 3,
    cache_read_input_tokens: 4,
  },
  durationMs: 1234.5,
  ...over,
});

/** Resolves to how the turn ends. */
type Play = (turn: EngineTurn, emit: (...events: AgentEvent[]) => void) => Promise<TurnOutcome>;

/** A turn that lasts until it is stopped. */
export const untilStopped = async ({ signal }: EngineTurn): Promise<TurnOutcome> => {
  await delay(2 ** 30, undefined, { signal, ref: false }).catch(() => undefined);
  throw endedBy(signal);
};

/** An engine that plays what it is told, with so many places. */
const fakeEngine = (places = 10) => {
  const state = { play: (async () => outcome()) as Play, turns: [] as EngineTurn[], taken: 0 };
  const closing = new AbortController();
  const engine = {
    admit: () => {
      closing.signal.throwIfAborted();
      if (state.taken >= places) throw new ServiceError("capacity_full", "All places are taken; try again");
      state.taken += 1;
      return () => void (state.taken -= 1);
    },
    run: async function* (asked: EngineTurn): AsyncGenerator<EngineEvent, void, void> {
      const turn = { ...asked, signal: AbortSignal.any([asked.signal, closing.signal]) };
      state.turns.push(turn);
      const events: AgentEvent[] = [];
      yield { type: "session", id: "session-1" };
      const ended = await state.play(turn, (...more) => events.push(...more));
      yield* events;
      yield { type: "ended", outcome: ended };
      if (!ended.ok) throw new ServiceError("model_failed", ended.error ?? "");
    },
  };
  /** As the engine at the end of the service. */
  const close = () => closing.abort(new ServiceError("draining", "The service is shutting down; ask again"));
  return Object.assign(state, { engine, close });
};

const agentPackage: Pick<AgentPackage, "name" | "profile" | "read"> = {
  name: "hub",
  profile: "hub",
  read: async () => ({
    fingerprint: "f",
    systemPrompt: "Be kind.",
    budgetDayUsd: null,
    timeoutSeconds: 77,
    models: ["hub", "sonnet"],
    cliModel: (name) => ({ hub: null, sonnet: "claude-sonnet" })[name],
  }),
};

type Given = {
  policy?: DisconnectPolicy;
  places?: number;
  /** What two instances have in common. */
  shared?: { store: CompletionStore; bus: EventBus };
  instance?: { podName: string; epoch: string };
  /** Of the spool. */
  directory?: string;
};

const clock = () => new Date("2026-01-01T00:00:00Z");

export const openShared = async () => {
  const log = createLog("silent", (line) => line);
  const directory = await temporaryDirectory();
  return {
    store: createCompletionStore(
      await openFilesRecords(completionKind(completionTtl), { directory, now: clock, log }),
    ),
    bus: openLocalEventBus({ now: clock }),
  };
};

export const openCompletions = async ({
  policy = { kind: "cancel", graceSeconds: 0 },
  places,
  shared,
  instance = { podName: "pod", epoch: "e1" },
  directory,
}: Given = {}) => {
  const { store, bus } = shared ?? (await openShared());
  const lines: string[] = [];
  const log = createLog("info", (line) => (lines.push(line), ""));
  const fake = fakeEngine(places);
  const quiet = createLog("silent", (line) => line);
  const visibilities = createVisibilityStore(
    await openFilesRecords(visibilityKind, { directory: await temporaryDirectory(), now: clock, log: quiet }),
  );
  const completions = createCompletions({
    engine: fake.engine,
    store,
    spool: await openCompletionSpool(directory ?? (await temporaryDirectory()), log),
    bus,
    agentPackage,
    visibilities,
    requireAgent: async () => undefined,
    settings: { agentModeOnDisconnect: policy },
    instance,
    now: clock,
    log,
  });
  const submit = (
    input: { uuid?: string; message?: string; [name: string]: unknown } = {},
    context: Partial<RequestContext> = {},
  ) =>
    completions.submit(
      completionOperations.agent_completions.input.parse({ message: "Say it", uuid: "one", ...input }),
      { signal: new AbortController().signal, principal: "caller", ...context },
    );
  /** The events of a completion that has ended, as type and content. */
  const publishedEvents = async (uuid = "one") => {
    const events: [string, string][] = [];
    for await (const { event } of bus.read(uuid, fromStart, AbortSignal.timeout(5000)))
      events.push([event.event_type, event.content]);
    return events;
  };
  return { completions, submit, told: publishedEvents, visibilities, store, bus, fake, lines };
};

export const context: RequestContext = { signal: new AbortController().signal, principal: "caller" };
