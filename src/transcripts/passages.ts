import { createHash } from "node:crypto";
import type { Entry } from "../contract/transcript-entry.ts";
import { abridged } from "./answer-size.ts";
import { entriesFrom, entryCount } from "./entry-pages.ts";
import type { Library } from "./library.ts";

/** A part of a session that has one vector. */
export type Passage = {
  /** Position of its first entry. */
  position: number;
  timestamp: string | null;
  text: string;
  /** Of the text: a passage that is unchanged keeps its vector. */
  digest: string;
};

/** Characters: what usual embedding models take in any language. */
const passageCharacters = 4000;

/** A user's entry with the answers that follow it, as far as they have room; then the next passage begins. */
export function* passagesOf(library: Library, id: string): Generator<Passage, void> {
  let open: { position: number; timestamp: string | null; texts: string[]; characters: number } | null = null;
  let position = 0;
  for (const entry of entriesFrom(library, id, { from: 0, to: entryCount(library, id) })) {
    const text = abridged(`${entry.entry_type}: ${entry.content}`, passageCharacters);
    if (open !== null && (entry.entry_type === "user" || open.characters + text.length > passageCharacters)) {
      yield passageOf(open);
      open = null;
    }
    if (entry.content.trim() !== "") {
      open ??= { position, timestamp: entry.timestamp, texts: [], characters: 0 };
      open.texts.push(text);
      open.characters += text.length;
    }
    position += 1;
  }
  if (open !== null) yield passageOf(open);
}

const passageOf = (open: { position: number; timestamp: string | null; texts: string[] }): Passage => {
  const text = open.texts.join("\n\n");
  const digest = createHash("sha256").update(text).digest("base64");
  return { position: open.position, timestamp: open.timestamp, text, digest };
};

/** The text at a position again, to show it. */
export const textAt = (library: Library, id: string, position: number): string => {
  const entries: Entry[] = [...entriesFrom(library, id, { from: position, to: position + 1 })];
  return entries.map(({ content }) => content).join("");
};
