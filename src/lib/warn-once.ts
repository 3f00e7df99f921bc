/** Warns once of each subject until it is cleared, and of at most `max` subjects. */
export const createWarnOnce = (max = 1000) => {
  const warned = new Set<string>();
  return {
    once: (subject: string, warn: () => void): void => {
      if (warned.has(subject) || warned.size >= max) return;
      warned.add(subject);
      warn();
    },
    clear: (subject: string): void => void warned.delete(subject),
  };
};
