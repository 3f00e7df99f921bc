import { isOwnOfClaude, readClaude } from "./claude-line.ts";
import { readCodex } from "./codex-line.ts";
import type { Source } from "./corpus.ts";
import { objectOf, parsed } from "./json.ts";
import { recordsOf } from "./records.ts";
import type { Line } from "./transcript-line.ts";

export type Placed = { begin: number; length: number; line: Line };

const readOf = (kind: Source["kind"]) => (kind === "codex" ? readCodex : readClaude);

/** Reads a record; returns null when it says nothing that is known. */
export const readLine = (kind: Source["kind"], record: Buffer): Line | null =>
  readOf(kind)(objectOf(parsed(record.toString("utf8"))));

/** Reads the records on one line of a file. The line is stored whatever they are. */
export const readLines = (kind: Source["kind"], bytes: Buffer): { placed: Placed[]; isDamaged: boolean } => {
  if (kind !== "codex" && isOwnOfClaude(bytes)) return { placed: [], isDamaged: false };
  const read = readOf(kind);
  const { pieces, isDamaged } = recordsOf(
    bytes,
    (record) => "type" in record && read(record)?.unknown === "",
  );
  const placed = pieces.flatMap(({ record, ...place }) => {
    const line = read(record);
    return line === null ? [] : [{ ...place, line }];
  });
  return { placed, isDamaged };
};
