import { GitError } from "../../../src/lib/git.ts";
import { RepoError } from "../../../src/repos/repos.ts";
import { canaries } from "./trap.ts";

/** Longest time of one call, ms: it starts some ten git processes, on a machine that may be busy. */
const longest = 120_000;

/** These say what git says without a sentence of the service's around it. */
const plainCalls: readonly string[] = ["inspect", "capture", "saveBranch"];

/** Calls the service, and notes how each call ended and what must not be. */
export const createWitness = () => {
  const faults: string[] = [];
  const answers: Record<string, number> = {};
  const refusals: Record<string, string> = {};
  let slowest = 0;
  const fault = (text: string): void => void faults.push(text.slice(0, 600));
  const noteWords = (call: string, text: string): void => {
    const word = Object.values(canaries).find((each) => text.includes(each));
    if (word !== undefined) fault(`${call} gives away ${word}`);
  };
  const answerTo = (call: string, error: unknown): string => {
    if (error instanceof RepoError) return error.reason;
    if (error instanceof GitError && plainCalls.includes(call)) return "GitError";
    fault(`${call} throws ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    return "other";
  };
  return {
    faults,
    answers,
    refusals,
    fault,
    noteWords,
    slowest: () => slowest,
    /** Resolves to what the call gives, or to the error with which it refuses. */
    call: async <Value>(
      name: string,
      run: () => Promise<Value>,
    ): Promise<{ value: Value; error: null } | { value: null; error: Error }> => {
      const began = performance.now();
      const late = setTimeout(() => fault(`${name} has not ended within ${longest} ms`), longest);
      let answer = "ok";
      try {
        const value = await run();
        noteWords(name, JSON.stringify(value) ?? "");
        return { value, error: null };
      } catch (thrown) {
        answer = answerTo(name, thrown);
        const error = thrown instanceof Error ? thrown : new Error(String(thrown));
        noteWords(name, `${error.message} ${String(error.cause)}`);
        refusals[`${name} ${answer}`] ??= error.message.slice(0, 300);
        return { value: null, error };
      } finally {
        clearTimeout(late);
        const label = `${name} ${answer}`;
        answers[label] = (answers[label] ?? 0) + 1;
        slowest = Math.max(slowest, Math.round(performance.now() - began));
      }
    },
  };
};

export type Witness = ReturnType<typeof createWitness>;
