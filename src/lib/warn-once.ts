/** Remembers what has been warned of, at most `most` things, so that each is said once until it is well again. */
export const createWarnOnce = (most = 1000) => {
  const said = new Set<string>();
  return {
    once: (what: string, warn: () => void): void => {
      if (said.has(what) || said.size >= most) return;
      said.add(what);
      warn();
    },
    isWell: (what: string): void => void said.delete(what),
  };
};
