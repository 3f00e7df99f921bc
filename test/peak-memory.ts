/** Growth of this thread's memory at its peak, MiB; other threads run other tests. */
export const peakOf = async <Value>(work: Promise<Value>): Promise<{ value: Value; grown: number }> => {
  const held = (): number => {
    const { heapUsed, external } = process.memoryUsage();
    return (heapUsed + external) / 2 ** 20;
  };
  const before = held();
  let peak = before;
  const sampler = setInterval(() => (peak = Math.max(peak, held())), 10);
  const value = await work.finally(() => clearInterval(sampler));
  return { value, grown: peak - before };
};
