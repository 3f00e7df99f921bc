import type { AgentEvent } from "../contract/event.ts";
import { shorten } from "../store/event-budget.ts";
import type { BusEvent } from "../store/event-bus.ts";

type Told = Pick<BusEvent, "event_type" | "content">;

/** What those who look on are told of an event of the agent; null: nothing. */
export const toldOf = (given: AgentEvent): Told | null => {
  const event = shorten(given);
  if (event.type === "thinking") return { event_type: "thinking", content: event.text };
  if (event.type === "text") return { event_type: "assistant_text", content: event.text };
  if (event.type !== "tool_use" && event.type !== "tool_result") return null;
  const { type, ...rest } = event;
  return { event_type: type, content: JSON.stringify(rest) };
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
    add: (event: AgentEvent): void => {
      if (event.type === "started") known.session_id = event.session_id;
      if (event.type !== "result") return;
      const { session_id, num_turns, cost_usd, usage } = event;
      Object.assign(known, { session_id: session_id ?? known.session_id, num_turns, cost_usd, usage });
    },
  };
};
