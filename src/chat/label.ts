import type { AgentEvent } from "../contract/event.ts";
import type { Delta } from "./delta.ts";

export type Labeller = {
  take: (event: AgentEvent) => Delta[];
  /** The turn has ended. Afterwards there is nothing more to tell. */
  finish: (how: { ok: boolean; resultText: string }) => Delta[];
};

/**
 * Makes deltas of one turn's events, and finds the role of each text block:
 *
 * A block is collected until it is closed, and then held. When anything follows that a reader could see (thinking, text,
 * a tool), it was `narration`. When the turn ends well, it is the `final` one; when it fails, the block is told as
 * `narration`, so that nothing the agent said is lost. A block that turns out to be a dropped first try is forgotten.
 *
 * With `live` every piece of text is told at once, as `text`, and there is neither narration nor final.
 * What subagents do is not told.
 */
export const createLabeller = ({ live }: { live: boolean }): Labeller => {
  let held: Held | null = null;
  /** The block of the last piece of thinking. */
  let thinking: number | null = null;
  /** Text or a tool has been told. */
  let told = false;

  const tell = (...deltas: Delta[]): Delta[] => {
    told = true;
    return deltas;
  };
  const release = (kind: "narration" | "final"): Delta[] => {
    if (held === null) return [];
    const text = held.pieces.join("");
    held = null;
    return tell({ kind, text });
  };
  const forget = (block: number | null): void => {
    if (held?.block === block) held = null;
  };
  const takeText = ({ block, text }: { block: number; text: string }): Delta[] => {
    if (text === "") return [];
    if (live) return tell({ kind: "text", text });
    if (held?.block === block) {
      held.length += text.length;
      if (held.length > mostHeld) throw new Error(`a block of text has more than ${mostHeld} characters`);
      held.pieces.push(text);
      return [];
    }
    const deltas = release("narration");
    held = { block, pieces: [text], length: text.length };
    return deltas;
  };

  /** Blocks of thinking are joined by whoever reads them: a blank line keeps them apart. */
  const thought = ({ block, text }: { block: number; text: string }): Delta => {
    const isNext = thinking !== null && thinking !== block;
    thinking = block;
    return { kind: "thinking", text: isNext ? `\n\n${text}` : text };
  };

  return {
    take: (event) => {
      switch (event.type) {
        case "thinking":
          return [...release("narration"), thought(event)];
        case "text":
          return takeText(event);
        // Its input may take the model long to write: what it said before need not wait for that.
        case "tool_start":
          return release("narration");
        case "tool_use":
        case "tool_result":
          return event.parent === null ? [...release("narration"), ...tell(toolDelta(event))] : [];
        case "warning":
          forget(droppedBlock(event));
          return [];
        // A block's end changes nothing: its role is known when something follows, and until then pieces may come.
        case "block_end":
        case "started":
        case "retry":
        case "rate_limit":
        case "result":
        case "exited":
          return [];
      }
    },
    finish: ({ ok, resultText }) => {
      const deltas = release(ok ? "final" : "narration");
      if (told || !ok || resultText === "") return deltas;
      return tell({ kind: live ? "text" : "final", text: resultText });
    },
  };
};

/** The last text block, as far as it came. */
type Held = { block: number; pieces: string[]; length: number };

/** Of a block whose role is not known yet: it is in memory until then. */
const mostHeld = 64 * 1024 * 1024;

const toolDelta = (event: Extract<AgentEvent, { type: "tool_use" | "tool_result" }>): Delta =>
  event.type === "tool_use"
    ? { kind: "tool_use", id: event.id, name: event.name, input: event.input }
    : { kind: "tool_result", id: event.tool_use_id, content: event.content, isError: event.is_error };

const droppedBlock = (event: Extract<AgentEvent, { type: "warning" }>): number | null =>
  event.dropped_block ?? null;
