/** One visible step of a turn, in the order in which it is told. Nothing is in two of them. */
export type Delta =
  /** A piece of thinking, as the model produces it. */
  | { kind: "thinking"; text: string }
  /** A piece of text, as the model produces it (live text only; then there is no narration and no final). */
  | { kind: "text"; text: string }
  /** A whole text block that something followed in the turn. */
  | { kind: "narration"; text: string }
  /** The whole last text block of the turn. */
  | { kind: "final"; text: string }
  | { kind: "tool_use"; id: string; name: string; input: unknown }
  | { kind: "tool_result"; id: string; content: string; isError: boolean };
