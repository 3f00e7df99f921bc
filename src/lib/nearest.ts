/**
 * The known name that `name` probably means: one that contains it, or differs by at most two characters and at most a
 * third of it; what a name has besides at its end counts as one. Two characters in the wrong order count as one.
 */
export const nearest = (name: string, known: readonly string[]): string | undefined => {
  const typed = name.toLowerCase().slice(0, 50);
  const [best] = known
    .map((candidate) => ({
      candidate,
      edits: isPart(typed, candidate.toLowerCase()) ? 1 : edits(typed, candidate.toLowerCase()),
    }))
    .toSorted((one, other) => one.edits - other.edits);
  return best !== undefined && best.edits <= allowed(typed) ? best.candidate : undefined;
};

const allowed = (typed: string): number => Math.min(2, Math.floor(typed.length / 3));

/** `; did you mean X?`, or empty. */
export const suggestion = (word: string, candidates: Iterable<string>): string => {
  const near = nearest(word, Array.from(candidates));
  return near === undefined ? "" : `; did you mean ${near}?`;
};

const isPart = (name: string, candidate: string): boolean => name.length > 2 && candidate.includes(name);

/** Damerau-Levenshtein distance (optimal string alignment), or that to a beginning of the candidate and one. */
const edits = (from: string, to: string): number => {
  let earlier: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [index, character] of from.split("").entries()) {
    const next = [index + 1];
    for (const [column, other] of to.split("").entries()) {
      const substitution = (row[column] ?? 0) + (character === other ? 0 : 1);
      const isSwapped = character === to[column - 1] && from[index - 1] === other;
      const swap = isSwapped ? (earlier[column - 1] ?? 0) + 1 : Infinity;
      next.push(Math.min(substitution, swap, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    [earlier, row] = [row, next];
  }
  return Math.min(row.at(-1) ?? 0, Math.min(...row) + 1);
};
