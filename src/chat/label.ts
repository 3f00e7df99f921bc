import type { AgentEvent } from "../contract/event.ts";
import type { Delta } from "./delta.ts";

/**
 * Makes deltas of one turn's events, and finds the role of each text block:
 *
 * A block is collected until it is closed, and then held. If anything visible follows (thinking, text, a tool), it was
 * `narration`. If the turn ends well, it is `final`; if the turn fails, it becomes `narration`, so that nothing the
 * agent said is lost. A block that was a dropped first try is discarded.
 *
 * With `live` every piece of text goes out at once, as `text`, and there is neither narration nor final. What
 * subagents do is not shown.
 */
export const createLabeller = ({ live }: { live: boolean }) => {
  let held: HeldBlock | null = null;
  /** The block of the last piece of thinking. */
  let thinking: number | null = null;
  /** Text or a tool has been sent. */
  let hasSent = false;

  const send = (...deltas: Delta[]): Delta[] => {
    hasSent = true;
    return deltas;
  };
  const release = (kind: "narration" | "final"): Delta[] => {
    if (held === null) return [];
    const text = held.pieces.join("");
    held = null;
    return send({ kind, text });
  };
  const forget = (block: number | null): void => {
    if (held?.block === block) held = null;
  };
  const takeText = ({ block, text }: { block: number; text: string }): Delta[] => {
    if (text === "") return [];
    if (live) return send({ kind: "text", text });
    if (held?.block === block) {
      held.length += text.length;
      if (held.length > maxHeldChars)
        throw new Error(`a block of text has more than ${maxHeldChars} characters`);
      held.pieces.push(text);
      return [];
    }
    const deltas = release("narration");
    held = { block, pieces: [text], length: text.length };
    return deltas;
  };

  const takeTool = (event: ToolEvent): Delta[] =>
    event.parent === null ? [...release("narration"), ...send(toolDelta(event))] : [];

  /** Readers join blocks of thinking: a blank line separates them. */
  const thought = ({ block, text }: { block: number; text: string }): Delta => {
    const isNext = thinking !== null && thinking !== block;
    thinking = block;
    return { kind: "thinking", text: isNext ? `\n\n${text}` : text };
  };

  return {
    take: (event: AgentEvent): Delta[] => {
      if (event.type === "thinking") return [...release("narration"), thought(event)];
      if (event.type === "text") return takeText(event);
      // The model may take long to write the tool's input: earlier text need not wait for that.
      if (event.type === "tool_start") return release("narration");
      if (event.type === "tool_use" || event.type === "tool_result") return takeTool(event);
      if (event.type === "warning") forget(event.dropped_block ?? null);
      // A block's end decides nothing: what follows gives its role, and until then pieces may come.
      return [];
    },
    /** The turn has ended; no delta follows. */
    finish: ({ ok, resultText }: { ok: boolean; resultText: string }): Delta[] => {
      const deltas = release(ok ? "final" : "narration");
      if (hasSent || !ok || resultText === "") return deltas;
      return send({ kind: live ? "text" : "final", text: resultText });
    },
  };
};

/** The last text block so far. */
type HeldBlock = { block: number; pieces: string[]; length: number };

/** Limit of a block whose role is not known yet, which is in memory until then. */
const maxHeldChars = 64 * 1024 * 1024;

type ToolEvent = Extract<AgentEvent, { type: "tool_use" | "tool_result" }>;

const toolDelta = (event: ToolEvent): Delta =>
  event.type === "tool_use"
    ? { kind: "tool_use", id: event.id, name: event.name, input: event.input }
    : { kind: "tool_result", id: event.tool_use_id, content: event.content, isError: event.is_error };
