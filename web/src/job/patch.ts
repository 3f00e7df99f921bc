import type { ChangedFile } from "../../../src/contract/diff.ts";
import { visible } from "../../../src/view/sanitise.ts";

/** A changed file, and its first row. */
export type PatchFile = ChangedFile & { row: number };

/** A row to show: a file's heading, a hunk's heading, or a line. */
export type PatchRow = {
  kind: "file" | "hunk" | "added" | "deleted" | "same" | "note";
  /** A line is without its sign, and is made safe by `shownText`. */
  text: string;
  /** Line numbers; null: the line is not on that side. */
  before: number | null;
  after: number | null;
  file: PatchFile;
};

export type Patch = { files: PatchFile[]; rows: PatchRow[]; isCut: boolean };

/** Browsers draw no longer pages than some 16 million pixels. */
const mostRows = 500_000;

/**
 * Reads a patch of git.
 * @param changed the files of the patch in its order; those beyond them are named by their heading, and those that are left
 * out of it come last
 */
export const readPatch = (text: string, changed: readonly ChangedFile[]): Patch => {
  const [files, rows]: [PatchFile[], PatchRow[]] = [[], []];
  const inText = changed.filter(({ left_out }) => !left_out);
  let heading = "";
  let file: PatchFile | undefined;
  let [before, after] = [0, 0];
  /** Lines of the hunk still to come on each side: one that looks like a heading may be one of them. */
  let [beforeLeft, afterLeft] = [0, 0];

  const add = (
    kind: PatchRow["kind"],
    line: string,
    lineBefore: number | null = null,
    lineAfter: number | null = null,
  ): void => {
    if (file !== undefined) rows.push({ kind, text: line, before: lineBefore, after: lineAfter, file });
  };

  const takeHeading = (line: string): void => {
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk !== null && file !== undefined) {
      [before, after] = [Number(hunk[1]), Number(hunk[3])];
      [beforeLeft, afterLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      add("hunk", line);
    }
    // A file that becomes a link has two parts with the same heading.
    if (!line.startsWith("diff --git ") || line === heading) return;
    heading = line;
    file = { ...(inText[files.length] ?? unlisted(line)), row: rows.length };
    files.push(file);
    add("file", file.path);
  };

  const takeLine = (line: string): void => {
    const sign = line.charAt(0);
    if (sign === "\\") return add("note", line);
    if (beforeLeft <= 0 && afterLeft <= 0) return takeHeading(line);
    const [isBefore, isAfter] = [sign !== "+", sign !== "-"];
    const kind = isBefore ? (isAfter ? "same" : "deleted") : "added";
    add(kind, line.slice(1), isBefore ? before : null, isAfter ? after : null);
    if (isBefore) [before, beforeLeft] = [before + 1, beforeLeft - 1];
    if (isAfter) [after, afterLeft] = [after + 1, afterLeft - 1];
  };

  const lines = text.split("\n", mostRows);
  for (const line of lines) takeLine(line);
  for (const left of changed.filter(({ left_out }) => left_out)) {
    file = { ...left, row: rows.length };
    files.push(file);
    add("file", file.path);
    add("note", `Too large to be shown: ${left.size.toLocaleString("en")} bytes`);
  }
  return { files, rows, isCut: lines.length === mostRows };
};

/** A longer line is cut: the browser would need seconds to lay it out. */
export const longestLine = 2000;

/** The text of a row as it can be shown. */
export const shownText = (text: string): string => {
  // A carriage return at the end is a change that can be seen.
  const line = text.slice(0, longestLine).replace(/\r$/, "^M");
  const left = text.length - longestLine;
  return visible(line) + (left > 0 ? ` … ${left.toLocaleString("en")} more characters` : "");
};

const unlisted = (line: string): ChangedFile => ({
  path: line.slice(line.lastIndexOf(" b/") + 3),
  old_path: null,
  status: "modified",
  insertions: 0,
  deletions: 0,
  binary: false,
  size: 0,
  left_out: false,
});
