import { readClaude } from "./claude-line.ts";
import { readCodex } from "./codex-line.ts";
import type { Source } from "./corpus.ts";
import { objectOf, parsed } from "./json.ts";
import { emptyLine, type Line } from "./transcript-line.ts";

/** A longer line is not parsed, bytes. */
const longestParsed = 8 * 1024 * 1024;

/** How much of a line that is not parsed is searched, bytes. */
const longestUnparsed = 1024 * 1024;

/** Null: nothing that is known. The line is kept all the same. */
export const readLine = (kind: Source["kind"], bytes: Buffer): Line | null => {
  if (bytes.length > longestParsed)
    return { ...emptyLine, type: "system", more: bytes.toString("utf8", 0, longestUnparsed) };
  const record = objectOf(parsed(bytes.toString("utf8")));
  return kind === "codex" ? readCodex(record) : readClaude(record);
};
