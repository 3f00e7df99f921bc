import type { AgentEvent } from "../contract/event.ts";
import type { Log } from "../lib/log.ts";
import { shorten } from "../store/event-log.ts";
import type { BusEvent, EventBus } from "../store/event-bus.ts";

type Told = Pick<BusEvent, "event_type" | "content">;

/** What those who look on are told of an event of the agent; null: nothing. */
const toldOf = (given: AgentEvent): Told | null => {
  const event = shorten(given);
  if (event.type === "thinking") return { event_type: "thinking", content: event.text };
  if (event.type === "text") return { event_type: "assistant_text", content: event.text };
  if (event.type !== "tool_use" && event.type !== "tool_result") return null;
  const { type, ...rest } = event;
  return { event_type: type, content: JSON.stringify(rest) };
};

type Teller = { bus: Pick<EventBus, "publish">; now: () => Date; log: Log };

export type BusTeller = {
  onSession: (sessionId: string) => void;
  onEvents: (events: readonly AgentEvent[]) => void;
  /** Nothing follows. `content` of the last entry is how it ended. */
  end: (status: string, error: string | null) => void;
};

/** Puts what the agent does on the bus, for those who look on. Never throws: the work is worth more than what is told of it. */
export const createTeller = ({ bus, now, log }: Teller, correlationId: string): BusTeller => {
  let session = "";
  const publish = (told: Told): void =>
    bus.publish({ ...told, ts: now().toISOString(), session_id: session, correlation_id: correlationId });
  return {
    onSession: (sessionId) => void (session = sessionId),
    onEvents: (events) => {
      try {
        for (const told of events.map(toldOf)) if (told !== null) publish(told);
      } catch (err) {
        log.error({ err, correlation_id: correlationId }, "what the agent does could not be told");
      }
    },
    end: (status, error) => {
      if (error !== null) publish({ event_type: "error", content: error });
      publish({ event_type: "done", content: status });
    },
  };
};

/** What the agent has said of its turn so far: all that is known of one that fails. */
export const createAccount = () => {
  const known = {
    session_id: null as string | null,
    num_turns: null as number | null,
    cost_usd: null as number | null,
    usage: null as Extract<AgentEvent, { type: "result" }>["usage"],
  };
  return {
    known,
    begin: (sessionId: string): void => void (known.session_id = sessionId),
    add: (event: AgentEvent): void => {
      if (event.type === "started") known.session_id = event.session_id;
      if (event.type !== "result") return;
      const { session_id, num_turns, cost_usd, usage } = event;
      Object.assign(known, { session_id: session_id ?? known.session_id, num_turns, cost_usd, usage });
    },
  };
};
