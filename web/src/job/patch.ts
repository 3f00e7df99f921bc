import { visible } from "../../../src/cli/text/sanitise.ts";

export type PatchFile = {
  path: string;
  oldPath: string | null;
  status: "added" | "modified" | "deleted" | "renamed";
  insertions: number;
  deletions: number;
  isBinary: boolean;
  /** Its first row. */
  row: number;
};

export type LineKind = "file" | "hunk" | "added" | "deleted" | "same" | "note";

/** A row to show: a file's heading, a hunk's heading, or a line. */
export type PatchRow = {
  kind: LineKind;
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

const kinds: readonly LineKind[] = ["file", "hunk", "added", "deleted", "same", "note"];
const signs: Record<string, LineKind> = { "+": "added", "-": "deleted", " ": "same", "\\": "note" };

/** Characters that are read between two looks at the clock. */
const slice = 64 * 1024;

/**
 * Reads a patch without blocking the page.
 * @param pause called every few milliseconds; the page may paint and answer before it resolves; rejects to give up
 */
export const readPatch = async (text: string, pause: () => Promise<void>, sliceMs = 8): Promise<Patch> => {
  const files: PatchFile[] = [];
  // Of each row: where its text begins, kind, line before, line after (0: none), number of its file.
  let table = new Uint32Array(width * 1024);
  let rows = 0;
  let file: PatchFile | null = null;
  let [before, after] = [0, 0];
  /** Lines of the hunk still to come on each side: a line that looks like a header may be one of them. */
  let [beforeLeft, afterLeft] = [0, 0];

  const add = (kind: LineKind, at: number, numbers: [number, number] = [0, 0]): void => {
    if ((rows + 1) * width > table.length) {
      const larger = new Uint32Array(table.length * 2);
      larger.set(table);
      table = larger;
    }
    table.set([at, kinds.indexOf(kind), ...numbers, files.length - 1], rows * width);
    rows += 1;
  };

  const takeLine = (at: number, end: number): void => {
    if (file === null || (beforeLeft <= 0 && afterLeft <= 0 && text.charCodeAt(at) !== backslash)) {
      const line = text.slice(at, Math.min(end, at + 10_000));
      if (line.startsWith("diff --git ")) {
        file = { ...newFile(line), row: rows };
        files.push(file);
        add("file", at);
        return;
      }
      if (file === null) return;
      const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
      if (hunk === null) return takeHeader(file, line);
      [before, after] = [Number(hunk[1]), Number(hunk[3])];
      [beforeLeft, afterLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      return add("hunk", at);
    }
    const kind = signs[text.charAt(at)] ?? "same";
    if (kind === "note") return add("note", at);
    const [isBefore, isAfter] = [kind !== "added", kind !== "deleted"];
    add(kind, at, [isBefore ? before : 0, isAfter ? after : 0]);
    if (isBefore) [before, beforeLeft] = [before + 1, beforeLeft - 1];
    if (isAfter) [after, afterLeft] = [after + 1, afterLeft - 1];
    if (kind === "added") file.insertions += 1;
    if (kind === "deleted") file.deletions += 1;
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
      if (index < 0 || index >= rows) return null;
      const [at = 0, kindAt = 0, lineBefore, lineAfter, fileAt = 0] = table.subarray(
        index * width,
        (index + 1) * width,
      );
      const kind = kinds[kindAt] ?? "note";
      const owner = files[fileAt];
      if (owner === undefined) return null;
      const shown = kind === "file" ? owner.path : lineText(text, at, kind);
      return { kind, text: shown, before: lineBefore || null, after: lineAfter || null, file: owner };
    },
  };
};

const backslash = 92;
const width = 5;

const lineText = (text: string, at: number, kind: LineKind): string => {
  const newline = text.indexOf("\n", at);
  const end = newline === -1 ? text.length : newline;
  const from = kind === "hunk" || kind === "note" ? at : at + 1;
  // A carriage return at the end is a change that can be seen.
  const line = text.slice(from, Math.min(end, from + longestLine)).replace(/\r$/, "^M");
  const left = end - from - longestLine;
  return visible(line) + (left > 0 ? ` … ${left.toLocaleString("en")} more characters` : "");
};

/** Paths of `diff --git` are ambiguous when they have spaces; the lines that follow correct them. */
const newFile = (line: string): PatchFile => {
  const path = unquoted(/^diff --git .* ("b\/.*"|b\/.*)$/.exec(line)?.[1] ?? line.slice(11)).replace(
    /^b\//,
    "",
  );
  return { path, oldPath: null, status: "modified", insertions: 0, deletions: 0, isBinary: false, row: 0 };
};

const takeHeader = (file: PatchFile, line: string): void => {
  const [, word = "", rest = ""] =
    /^(new file|deleted file|rename from|rename to|GIT binary patch|Binary files|---|\+\+\+)(?: (.*))?$/.exec(
      line,
    ) ?? [];
  const path = unquoted(rest.replace(/\t$/, ""));
  if (word === "new file") file.status = "added";
  else if (word === "deleted file") file.status = "deleted";
  else if (word === "rename from") Object.assign(file, { status: "renamed", oldPath: path });
  else if (word === "rename to") file.path = path;
  else if (word === "GIT binary patch" || word === "Binary files") file.isBinary = true;
  else if ((word === "---" || word === "+++") && path !== "/dev/null") file.path = path.slice(2);
};

/** git quotes a path with bytes beyond ASCII or control characters as C does, each byte in octal. */
const unquoted = (path: string): string => {
  if (!path.startsWith('"')) return path;
  const bytes: number[] = [];
  for (const [, octal, escaped, plain] of path.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\]+)/gs)) {
    if (octal !== undefined) bytes.push(Number.parseInt(octal, 8));
    else bytes.push(...new TextEncoder().encode(plain ?? escapes[escaped ?? ""] ?? escaped));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
};

const escapes: Record<string, string> = { n: "\n", t: "\t", r: "\r", a: "\u0007", b: "\b", f: "\f", v: "\v" };
