/** The candidate that `word` is most likely a slip of the pen for, or null when none is near. */
const nearest = (word: string, candidates: Iterable<string>): string | null => {
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
};

/** `; did you mean X?`, or nothing. */
export const suggestion = (word: string, candidates: Iterable<string>): string => {
  const near = nearest(word, candidates);
  return near === null ? "" : `; did you mean ${near}?`;
};

/** Levenshtein's distance, a row of the table at a time. */
const editDistance = (from: string, to: string): number => {
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const change = (previous[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1);
      current.push(Math.min(change, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[to.length] ?? 0;
};
