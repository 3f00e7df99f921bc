/**
 * The longest time that `work` holds the event loop, in milliseconds of this thread's own CPU time: what other processes
 * take of a busy machine does not count.
 */
export const longestBlock = async (work: () => Promise<unknown>): Promise<number> => {
  let longest = 0;
  let before = cpuMs();
  const look = (): void => {
    const now = cpuMs();
    longest = Math.max(longest, now - before);
    before = now;
    next = setImmediate(look);
  };
  let next = setImmediate(look);
  try {
    await work();
  } finally {
    clearImmediate(next);
  }
  return Math.max(longest, cpuMs() - before);
};

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};
