import { createContext, Script } from "node:vm";

/** Only so much of a task is looked at: what kind of task it is stands at its beginning. */
const readCharacters = 2000;

/** Milliseconds that one pattern may take; a pattern that needs longer counts as not fitting. */
const patience = 25;

export type TaskPattern = (task: string) => boolean;

/** A case-insensitive regular expression. Patterns that could backtrack without end run under a watch. */
export const taskPattern = (source: string): TaskPattern => {
  const pattern = new RegExp(source, "i");
  const test = isPlain(source)
    ? (text: string) => pattern.test(text)
    : (text: string) => testWatched(pattern, text);
  return (task) => test(task.slice(0, readCharacters));
};

/** With one repetition at most, of a single character, work grows with the square of the text at worst. */
const isPlain = (source: string): boolean => {
  const bare = source
    .replaceAll(/\\[^]/g, "x")
    .replaceAll(/\[[^\]]*\]/g, "x")
    .replaceAll("(?:", "(");
  return (bare.match(/[*+?{]/g) ?? []).length <= 1 && !/\)[*+?{]/.test(bare);
};

const scope: { pattern: RegExp; text: string } = { pattern: /(?:)/, text: "" };
const context = createContext(scope);
const script = new Script("pattern.test(text)");

/** `vm` can end a regular expression that runs; nothing else within the process can. */
const testWatched = (pattern: RegExp, text: string): boolean => {
  Object.assign(scope, { pattern, text });
  try {
    return script.runInContext(context, { timeout: patience }) === true;
  } catch (error) {
    if (isTimeout(error)) return false;
    throw error;
  }
};

/** Errors from within the context are not instances of this realm's `Error`. */
const isTimeout = (error: unknown): boolean =>
  typeof error === "object" &&
  error !== null &&
  "code" in error &&
  error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
