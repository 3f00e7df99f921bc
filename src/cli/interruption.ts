import { exitCode } from "./exit-code.ts";
import type { ExitCode } from "./exit-code.ts";

/** The first SIGINT or SIGTERM aborts the signal; the same once more ends the process at once. */
export type Interruption = Disposable & {
  signal: AbortSignal;
  /** How to exit when the signal is aborted. */
  exit: () => ExitCode;
};

/** @param hangup the end of the terminal is a SIGTERM too; it may be told more than once, by the kernel and by the shell */
export const catchInterruption = ({ hangup = false } = {}): Interruption => {
  const controller = new AbortController();
  let exit: ExitCode = exitCode.interrupted;
  const interrupt = (): void => controller.abort();
  const terminate = (): void => {
    exit = exitCode.terminated;
    controller.abort();
  };
  process.once("SIGINT", interrupt);
  process.once("SIGTERM", terminate);
  // Never let go of: it may be told once more while the process ends.
  if (hangup) process.on("SIGHUP", terminate);
  return {
    signal: controller.signal,
    exit: () => exit,
    [Symbol.dispose]: () => {
      process.removeListener("SIGINT", interrupt);
      process.removeListener("SIGTERM", terminate);
    },
  };
};
