import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { exitCode, type ExitCode } from "../cli/failure.ts";
import { oneLine } from "../cli/text/sanitise.ts";
import type { Takeover } from "../fleet/fleet.ts";

/**
 * Gives a program the terminal until it ends. One that fails is given time to be read. A SIGTERM ends it and is what the
 * result says.
 */
export const runWithTerminal = async ({ program, args }: Takeover, cwd?: string): Promise<ExitCode> => {
  // Ctrl-C is for the program.
  const ignore = (): void => undefined;
  const terminated = new AbortController();
  const onTerminate = (): void => terminated.abort();
  process.on("SIGINT", ignore);
  process.once("SIGTERM", onTerminate);
  try {
    const child = spawn(program, args, { stdio: "inherit", cwd, signal: terminated.signal });
    const failure = await once(child, "close").then(
      ([code, signal]: unknown[]) =>
        code === 0 || signal !== null || code === 130
          ? null
          : `${program} ended with exit code ${String(code)}`,
      (error: Error) => `${program} could not be started: ${error.message}`,
    );
    if (terminated.signal.aborted) return exitCode.terminated;
    if (failure !== null) {
      using terminal = createInterface({ input: process.stdin, output: process.stdout });
      // Ctrl-D rejects.
      await terminal
        .question(`${oneLine(failure)}. Enter goes back `, { signal: terminated.signal })
        .catch(() => undefined);
    }
    return terminated.signal.aborted ? exitCode.terminated : exitCode.ok;
  } finally {
    process.removeListener("SIGINT", ignore);
    process.removeListener("SIGTERM", onTerminate);
  }
};
