/** Warns once of each subject until it is cleared, and of at most 1,000 subjects. */
export const createWarnOnce = () => {
  const warned = new Set<string>();
  return {
    once: (subject: string, warn: () => void): void => {
      if (warned.has(subject) || warned.size >= 1000) return;
      warned.add(subject);
      warn();
    },
    clear: (subject: string): void => void warned.delete(subject),
  };
};
