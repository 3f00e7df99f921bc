import { spawn } from "node:child_process";
import { once } from "node:events";
import { exitCode, type ExitCode } from "../cli/failure.ts";
import { oneLine } from "../view/sanitise.ts";
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
  const run = async (command: string, given: string[]): Promise<string | null> => {
    const child = spawn(command, given, { stdio: "inherit", cwd, signal: terminated.signal });
    return await once(child, "close").then(
      ([code, signal]: unknown[]) =>
        code === 0 || signal !== null || code === 130
          ? null
          : `${command} ended with exit code ${String(code)}`,
      (error: Error) => `${command} could not be started: ${error.message}`,
    );
  };
  try {
    const failure = await run(program, args);
    // A program of its own reads the line: who reads from standard input here takes it from the screens for good.
    if (failure !== null && !terminated.signal.aborted) await run("sh", ["-c", wait, "sh", oneLine(failure)]);
    return terminated.signal.aborted ? exitCode.terminated : exitCode.ok;
  } finally {
    process.removeListener("SIGINT", ignore);
    process.removeListener("SIGTERM", onTerminate);
  }
};

const wait = `printf '%s. Enter goes back ' "$1"; read -r _ || true`;
