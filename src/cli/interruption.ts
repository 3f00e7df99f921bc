import { exitCode } from "./exit-code.ts";
import type { ExitCode } from "./exit-code.ts";

/** The first SIGINT or SIGTERM aborts the signal; a second one ends the process at once. */
export type Interruption = Disposable & {
  signal: AbortSignal;
  /** How to exit when the signal is aborted. */
  exit: () => ExitCode;
};

export const catchInterruption = (): Interruption => {
  const controller = new AbortController();
  let exit: ExitCode = exitCode.interrupted;
  const interrupt = (): void => controller.abort();
  const terminate = (): void => {
    exit = exitCode.terminated;
    controller.abort();
  };
  process.once("SIGINT", interrupt);
  process.once("SIGTERM", terminate);
  return {
    signal: controller.signal,
    exit: () => exit,
    [Symbol.dispose]: () => {
      process.removeListener("SIGINT", interrupt);
      process.removeListener("SIGTERM", terminate);
    },
  };
};
