import type { AgentEvent } from "../contract/event.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";

type Piece = Extract<AgentEvent, { type: "text" | "thinking" }>;

/**
 * Takes the secrets out of events on their way to `append`. A model's words come in pieces of a few characters: an end
 * that a secret may begin with is held back until it is clear whether it does.
 */
export const maskEvents = (
  redact: Redactor,
  append: (event: AgentEvent) => void,
): ((event: AgentEvent) => void) => {
  let held: Piece | null = null;
  return (event) => {
    const isPiece = event.type === "text" || event.type === "thinking";
    const before: Piece | null = held;
    held = null;
    if (isPiece && before?.type === event.type && before.block === event.block) {
      held = passOn({ ...event, text: before.text + event.text }, redact, append);
      return;
    }
    if (before !== null) append(before);
    if (isPiece) held = passOn(event, redact, append);
    else append(redactDeep(event, redact));
  };
};

/** What is held back. */
const passOn = (piece: Piece, redact: Redactor, append: (event: AgentEvent) => void): Piece | null => {
  const text = redact(piece.text);
  const unfinished = redact.unfinished(text);
  const ready = text.slice(0, text.length - unfinished);
  if (ready !== "") append({ ...piece, text: ready });
  return unfinished === 0 ? null : { ...piece, text: text.slice(-unfinished) };
};
