import type { AgentEvent } from "../../contract/event.ts";
import { redactDeep, type Redactor } from "../../lib/redact.ts";

type Piece = Extract<AgentEvent, { type: "text" | "thinking" }>;

/**
 * Removes secrets from events before `append`. Text comes in pieces of a few characters: an end that may be the beginning of
 * a secret waits for the next event (null: none comes).
 */
export const maskEvents = (
  redact: Redactor,
  append: (event: AgentEvent) => void,
): ((event: AgentEvent | null) => void) => {
  let pending: Piece | null = null;
  return (event) => {
    const isPiece = event?.type === "text" || event?.type === "thinking";
    const before: Piece | null = pending;
    pending = null;
    if (isPiece && before?.type === event.type && before.block === event.block) {
      pending = appendReady({ ...event, text: before.text + event.text }, redact, append);
      return;
    }
    if (before !== null) append(before);
    if (isPiece) pending = appendReady(event, redact, append);
    else if (event !== null) append(redactDeep(event, redact));
  };
};

/** Appends what is no secret, and returns what must wait. */
const appendReady = (piece: Piece, redact: Redactor, append: (event: AgentEvent) => void): Piece | null => {
  const text = redact(piece.text);
  const unfinished = redact.unfinished(text);
  const ready = text.slice(0, text.length - unfinished);
  if (ready !== "") append({ ...piece, text: ready });
  return unfinished === 0 ? null : { ...piece, text: text.slice(-unfinished) };
};
