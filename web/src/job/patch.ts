import type { ChangedFile } from "../../../src/contract/diff.ts";
import { visible } from "../../../src/view/sanitise.ts";

/** A changed file, and its first row. */
export type PatchFile = ChangedFile & { row: number };

const kinds = ["file", "hunk", "added", "deleted", "same", "note"] as const;

/** A row to show: a file's heading, a hunk's heading, or a line. */
export type PatchRow = {
  kind: (typeof kinds)[number];
  /** Without its sign; safe to show, at most `longestLine` characters. */
  text: string;
  /** Line numbers; null: the line is not on that side. */
  before: number | null;
  after: number | null;
  file: PatchFile;
};

/** A patch of git as rows, of which each is made when it is shown: only the places of the lines are stored. */
export type Patch = { files: PatchFile[]; rows: number; row: (index: number) => PatchRow | null };

/** A longer line is cut: the browser would need seconds to lay it out. */
export const longestLine = 2000;

/** Characters that are read between two looks at the clock. */
const slice = 64 * 1024;

/** Numbers stored of a row: where its text begins, kind, line before, line after (0: none), number of its file. */
const width = 5;

/**
 * Reads a patch without blocking the page.
 * @param changed the files of the patch in its order; those beyond them are named by their heading
 * @param pause called every few milliseconds; the page may paint and answer before it resolves; rejects to give up
 */
export const readPatch = async (
  text: string,
  changed: readonly ChangedFile[],
  pause: () => Promise<void>,
  sliceMs = 8,
): Promise<Patch> => {
  const files: PatchFile[] = [];
  let heading = "";
  let table = new Uint32Array(width * 1024);
  let rows = 0;
  let [before, after] = [0, 0];
  /** Lines of the hunk still to come on each side: one that looks like a heading may be one of them. */
  let [beforeLeft, afterLeft] = [0, 0];

  const add = (kind: PatchRow["kind"], at: number, lineBefore = 0, lineAfter = 0): void => {
    if ((rows + 1) * width > table.length) {
      const larger = new Uint32Array(table.length * 2);
      larger.set(table);
      table = larger;
    }
    table.set([at, kinds.indexOf(kind), lineBefore, lineAfter, files.length - 1], rows * width);
    rows += 1;
  };

  const takeHeading = (line: string, at: number): void => {
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk !== null && files.length > 0) {
      [before, after] = [Number(hunk[1]), Number(hunk[3])];
      [beforeLeft, afterLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      add("hunk", at);
    }
    // A file that becomes a link has two parts with the same heading.
    if (!line.startsWith("diff --git ") || line === heading) return;
    heading = line;
    files.push({ ...(changed[files.length] ?? unlisted(line)), row: rows });
    add("file", at);
  };

  const takeLine = (at: number, end: number): void => {
    const sign = text.charAt(at);
    if (sign === "\\") return add("note", at);
    if (beforeLeft <= 0 && afterLeft <= 0) return takeHeading(text.slice(at, Math.min(end, at + 10_000)), at);
    const [isBefore, isAfter] = [sign !== "+", sign !== "-"];
    add(isBefore ? (isAfter ? "same" : "deleted") : "added", at, isBefore ? before : 0, isAfter ? after : 0);
    if (isBefore) [before, beforeLeft] = [before + 1, beforeLeft - 1];
    if (isAfter) [after, afterLeft] = [after + 1, afterLeft - 1];
  };

  let sliceEnd = performance.now() + sliceMs;
  let looked = 0;
  for (let at = 0; at < text.length;) {
    const newline = text.indexOf("\n", at);
    const end = newline === -1 ? text.length : newline;
    takeLine(at, end);
    at = end + 1;
    if (at - looked < slice) continue;
    looked = at;
    if (performance.now() < sliceEnd) continue;
    await pause();
    sliceEnd = performance.now() + sliceMs;
  }

  return {
    files,
    rows,
    row: (index) => {
      const [at = 0, kindAt = 0, lineBefore, lineAfter, fileAt = 0] = table.subarray(
        index * width,
        (index + 1) * width,
      );
      const [kind, file] = [kinds[kindAt], files[fileAt]];
      if (index < 0 || index >= rows || kind === undefined || file === undefined) return null;
      const shown = kind === "file" ? file.path : lineText(text, at, kind);
      return { kind, text: shown, before: lineBefore || null, after: lineAfter || null, file };
    },
  };
};

const lineText = (text: string, at: number, kind: PatchRow["kind"]): string => {
  const newline = text.indexOf("\n", at);
  const end = newline === -1 ? text.length : newline;
  const from = kind === "hunk" || kind === "note" ? at : at + 1;
  // A carriage return at the end is a change that can be seen.
  const line = text.slice(from, Math.min(end, from + longestLine)).replace(/\r$/, "^M");
  const left = end - from - longestLine;
  return visible(line) + (left > 0 ? ` … ${left.toLocaleString("en")} more characters` : "");
};

const unlisted = (line: string): ChangedFile => ({
  path: line.slice(line.lastIndexOf(" b/") + 3),
  old_path: null,
  status: "modified",
  insertions: 0,
  deletions: 0,
  binary: false,
});
