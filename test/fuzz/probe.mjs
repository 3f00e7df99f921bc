/**
 * Loaded into the service before it starts: says on its standard error how long its event loop was held up, in CPU time
 * of the main thread, so that a busy machine does not count. A signal asks for the size of the heap after a collection.
 */
const worthTelling = 50;
let last = process.threadCpuUsage();

setInterval(() => {
  const { user, system } = process.threadCpuUsage(last);
  last = process.threadCpuUsage();
  const ms = Math.round((user + system) / 1000);
  if (ms > worthTelling) process.stderr.write(`probe: blocked ${ms}\n`);
}, 5).unref();

process.on("SIGUSR2", () => {
  globalThis.gc?.();
  process.stderr.write(`probe: heap ${process.memoryUsage().heapUsed}\n`);
  last = process.threadCpuUsage();
});
