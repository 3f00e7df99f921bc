/**
 * Whether all of `text` fits `pattern`: `*` is any run of characters but `/`, `**` any run at all, `?` one character
 * but `/`; case does not count. Takes time in proportion to the two lengths, whatever the pattern.
 */
export const globMatches = (pattern: string, text: string): boolean => {
  const steps = pattern.toLowerCase().match(/\*\*|[^]/g) ?? [];
  // The set of steps that the text read so far may have come to; a run may also be empty, so its end is added at once.
  let reached = skipRuns(steps, new Set([0]));
  for (const character of text.toLowerCase()) {
    const next = new Set<number>();
    for (const at of reached) {
      const step = steps[at];
      if (step === "**" || (step === "*" && character !== "/")) next.add(at);
      else if (step === character || (step === "?" && character !== "/")) next.add(at + 1);
    }
    if (next.size === 0) return false;
    reached = skipRuns(steps, next);
  }
  return reached.has(steps.length);
};

const skipRuns = (steps: string[], reached: Set<number>): Set<number> => {
  // A Set is iterated in order of insertion, what is added on the way included.
  for (const at of reached) if (steps[at] === "*" || steps[at] === "**") reached.add(at + 1);
  return reached;
};
