import { unfenced, type ChatChunk, type ChatEventType } from "../../client/chat.ts";
import type { AgentEvent, JobEvent } from "../../contract/event.ts";
import { Visibility } from "../../contract/visibility.ts";
import { unpainted } from "../../view/paint.ts";
import { views } from "../../view/views.ts";
import type { Kind } from "../options.ts";

type Choice = ChatChunk["choices"][number];

/** Turns the chunks of an answer into the events that they were made from; leaves out the kinds that are to be hidden. */
export const createChatEvents = (hide: ReadonlySet<Kind>): ((chunk: ChatChunk) => JobEvent[]) => {
  let seq = 0;
  let block = 0;
  let before: string | undefined;

  const textBlock = (type: "text" | "thinking", text: string, isWhole: boolean): AgentEvent => {
    if (isWhole || before !== type) block += 1;
    before = isWhole ? undefined : type;
    return { type, block, text };
  };

  const eventsOf = ({ delta, ...tags }: Choice): AgentEvent[] => {
    const { reasoning_content: thinking, content } = delta;
    const events: AgentEvent[] = [];
    if (thinking && !hide.has("thinking")) events.push(textBlock("thinking", thinking, false));
    const type = tags.x_service_event_type;
    if (!content || isHidden(type, hide)) return events;
    if (type !== "tool_use" && type !== "tool_result") {
      const text = type === "stream_config" ? shownKinds(content) : content;
      return [...events, textBlock("text", text, type !== undefined)];
    }
    before = undefined;
    const id = tags.x_service_tool_use_id ?? "";
    const body = unfenced(content);
    return type === "tool_use"
      ? [...events, { type, id, name: tags.x_service_tool_name ?? "tool", input: parsed(body), parent: null }]
      : [
          ...events,
          { type, tool_use_id: id, content: body, is_error: tags.x_service_is_error === true, parent: null },
        ];
  };

  return ({ choices }) =>
    choices
      .flatMap(eventsOf)
      .map((event) => ({ ...event, seq: (seq += 1), at: new Date().toISOString(), attempt: 1 }));
};

const isHidden = (type: ChatEventType | undefined, hide: ReadonlySet<Kind>): boolean => {
  if (type === "tool_use" || type === "tool_result") return hide.has("tools");
  if (type === "narration" || type === "final" || type === "thinking") return hide.has(type);
  return type === undefined && hide.has("narration") && hide.has("final");
};

/** The service's visibility, the answer to `/stream-status`, as `svc visibility` shows it; another text unchanged. */
const shownKinds = (content: string): string => {
  const visibility = Visibility.safeParse(parsed(content));
  if (!visibility.success) return content;
  const shown = views.get_visibility({ success: true, visibility: visibility.data }, { paint: unpainted });
  return `${shown}\nThis holds for everyone who talks to the agent.`;
};

/** The value of a JSON text; another text unchanged. */
const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};
