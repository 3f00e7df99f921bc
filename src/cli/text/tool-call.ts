import { oneLine } from "./sanitise.ts";

/**
 * A tool call on one line: its name and its most informative argument. A path within the worktree is relative to it:
 * an absolute one would fill a line of 80 columns before the file name.
 */
export const toolCall = (name: string, input: unknown, worktree: string | null): string => {
  const argument = seenFrom(worktree, mainArgument(input));
  return oneLine(name.slice(0, longest)) + (argument === "" ? "" : `  ${argument}`);
};

const mainArgument = (input: unknown): string => {
  if (typeof input === "string") return short(input);
  if (typeof input !== "object" || input === null) return "";
  const values = new Map<string, unknown>(Object.entries(input));
  const text = [...telling.map((key) => values.get(key)), ...values.values()].find(
    (value) => typeof value === "string" && value !== "",
  );
  if (typeof text === "string") return short(text);
  return values.size === 0 ? "" : short(JSON.stringify(input));
};

const seenFrom = (worktree: string | null, text: string): string =>
  worktree !== null && text.startsWith(`${worktree}/`) ? text.slice(worktree.length + 1) : text;

/** Arguments by how informative they are, the best first. */
const telling = [
  "command",
  "file_path",
  "notebook_path",
  "path",
  "pattern",
  "url",
  "query",
  "description",
  "prompt",
];

/** An argument can have megabytes; only one line of it is shown. */
const longest = 2000;

const short = (text: string): string => oneLine(text.slice(0, longest));
