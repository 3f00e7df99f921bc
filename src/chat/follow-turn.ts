import type { TurnOutcome } from "../agents/agent.ts";
import type { AgentEvent } from "../contract/event.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import type { BusEvent, EventBus } from "../store/event-bus.ts";
import { shorten } from "../store/event-log.ts";
import type { Engine, EngineEvent, EngineTurn } from "./engine.ts";
import { endedBy } from "./failure.ts";

type Dependencies = {
  engine: Pick<Engine, "run">;
  bus: Pick<EventBus, "publish">;
  now: () => Date;
  log: Log;
};

type Following = {
  ask: EngineTurn;
  /** Called with each event. Must not throw. */
  take: (event: EngineEvent) => void;
  /** Under which id the agent's events are on the bus; null: the caller sees them as they come. */
  publishAs: string | null;
  /** For the log. */
  ids: Record<string, unknown>;
};

/** The end of a turn. `error`: why there is no answer; then the rest is as far as it is known. */
export type TurnEnd = { session: string | null } & (
  | { error: null; outcome: TurnOutcome }
  | { error: ServiceError; outcome: TurnOutcome | null }
);

/** Runs a turn of a chat or a completion to its end. Never rejects. */
export const followTurn = async (deps: Dependencies, following: Following): Promise<TurnEnd> => {
  const { ask, take, publishAs, ids } = following;
  const { signal } = ask;
  const publisher = publishAs === null ? null : createPublisher(deps, publishAs);
  let outcome: TurnOutcome | null = null;
  let session: string | null = null;
  try {
    signal.throwIfAborted();
    for await (const event of deps.engine.run(ask)) {
      publisher?.take(event);
      take(event);
      if (event.type === "session") session = event.id;
      else if (event.type === "ended") ({ outcome } = event);
    }
    if (outcome === null) throw new Error("the agent's turn has no outcome");
    return { error: null, outcome, session };
  } catch (thrown) {
    const failure: unknown = signal.aborted ? endedBy(signal) : thrown;
    if (failure instanceof ServiceError) return { error: failure, outcome, session };
    deps.log.error({ err: failure, ...ids }, "a turn failed unexpectedly");
    const error = new ServiceError("internal", "The service failed unexpectedly; its log says why");
    return { error, outcome, session };
  } finally {
    publisher?.flush();
  }
};

export const publishEnd = (
  { bus, now }: Pick<Dependencies, "bus" | "now">,
  id: string,
  { status, session, error }: { status: string; session: string | null; error: string | null },
): void => {
  const entry = { ts: now().toISOString(), session_id: session ?? "", correlation_id: id };
  if (error !== null) bus.publish({ event_type: "error", content: error, ...entry });
  bus.publish({ event_type: "done", content: status, ...entry });
};

type Published = Pick<BusEvent, "event_type" | "content">;

/** The event that subscribers get for one of the agent; null: none. */
const publishedOf = (given: AgentEvent): Published | null => {
  const event = shorten(given);
  if (event.type === "thinking") return { event_type: "thinking", content: event.text };
  if (event.type === "text") return { event_type: "assistant_text", content: event.text };
  if (event.type !== "tool_use" && event.type !== "tool_result") return null;
  const { type, ...rest } = event;
  return { event_type: type, content: JSON.stringify(rest) };
};

/** Publishes the agent's events. Pieces of one text that come at once are one entry: the bus holds few. */
const createPublisher = ({ bus, now, log }: Omit<Dependencies, "engine">, id: string) => {
  let session = "";
  let pending: Published[] = [];
  const flush = (): void => {
    const all = pending;
    pending = [];
    for (const entry of all)
      bus.publish({ ...entry, ts: now().toISOString(), session_id: session, correlation_id: id });
  };
  const add = (entry: Published): void => {
    if (pending.length === 0) process.nextTick(flush);
    const last = pending.at(-1);
    const isText = entry.event_type === "thinking" || entry.event_type === "assistant_text";
    if (isText && last?.event_type === entry.event_type) last.content += entry.content;
    else pending.push(entry);
  };
  return {
    take: (event: EngineEvent): void => {
      if (event.type === "session") session = event.id;
      if (event.type === "session" || event.type === "ready" || event.type === "spent") return;
      if (event.type === "ended") return;
      try {
        const entry = publishedOf(event);
        if (entry !== null) add(entry);
      } catch (err) {
        // The answer matters more.
        log.error({ err, correlation_id: id }, "what the agent does could not be published");
      }
    },
    flush,
  };
};
