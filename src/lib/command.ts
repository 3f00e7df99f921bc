import { spawn, type ChildProcess, type StdioOptions } from "node:child_process";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { endGroup, signalGroup } from "./process/group.ts";
import { createTailBuffer } from "./tail-buffer.ts";

/** A sandbox around one short program; see `Sandbox.confine`. */
export type Wall = {
  /** Program and arguments that come before the command. */
  prefix: readonly string[];
  /** A filter of system calls, which the prefix reads as descriptor 3; null: it needs none. */
  filter: Uint8Array | null;
};

export type Command = {
  command: string;
  args: readonly string[];
  cwd: string;
  /** The whole environment of the process. */
  env: NodeJS.ProcessEnv;
  timeoutSeconds: number;
  signal: AbortSignal;
  /** Standard input; absent: none. */
  input?: string | Uint8Array | undefined;
  /** A descriptor that the process and its children inherit as number 3. */
  inheritFd?: number | undefined;
  /** A file that is read as the standard input. The caller closes it. */
  inputFd?: number | undefined;
  /** Absent: the program starts none but known ones. Given, its group ends with it; null: there is no wall. */
  wall?: Wall | null | undefined;
  /** Default 64 MiB. */
  maxOutputBytes?: number | undefined;
  /** Receives the standard output in pieces and without a limit. An error that it throws ends the program and is thrown. */
  onOutput?: ((piece: string) => void) | undefined;
  /** Of the standard output; `latin1` preserves bytes that are not UTF-8. */
  encoding?: "utf8" | "latin1" | undefined;
};

export type CommandResult = {
  /** Null: the program was ended. */
  exitCode: number | null;
  stdout: string;
  /** The last 64 KiB. */
  stderr: string;
  ended: "exited" | "signalled" | "timed_out" | "too_much_output";
};

/** The program could not be started. */
export class CommandMissingError extends Error {
  override name = "CommandMissingError";
}

/**
 * Runs a short program as the leader of its own process group, with its output in memory up to a limit. Ends the group (TERM,
 * 2 s, KILL) when the signal aborts, the time is up or the output is too long.
 * @throws CommandMissingError, or the signal's reason
 */
export const runCommand = async (command: Command): Promise<CommandResult> => {
  const { signal, timeoutSeconds, maxOutputBytes = 64 * 1024 * 1024, encoding = "utf8", onOutput } = command;
  signal.throwIfAborted();
  const child = start(command);
  const closed = once(child, "close").then(
    () => null,
    (error: unknown) => error,
  );
  let ended: CommandResult["ended"] = "exited";
  let stopping: Promise<void> | undefined;
  const stop = (why?: CommandResult["ended"]): void => {
    if (why !== undefined && ended === "exited") ended = why;
    stopping ??= end(child, closed);
  };
  const onAbort = (): void => stop();
  signal.addEventListener("abort", onAbort, { once: true });
  const timer = setTimeout(() => stop("timed_out"), timeoutSeconds * 1000);

  const stdout: Buffer[] = [];
  let size = 0;
  const stderr = createTailBuffer(64 * 1024);
  let fault: { thrown: unknown } | undefined;
  child.stdout?.on("data", (chunk: Buffer) => {
    if (fault !== undefined) return;
    if (onOutput !== undefined) {
      try {
        onOutput(chunk.toString(encoding));
      } catch (thrown) {
        fault = { thrown };
        stop();
      }
      return;
    }
    size += chunk.length;
    if (size <= maxOutputBytes) stdout.push(chunk);
    else stop("too_much_output");
  });
  child.stderr?.on("data", stderr.push);
  if (child.stdin !== null) feed(child.stdin, command.input);

  try {
    const failure = await Promise.race([closed, abandoned(child)]);
    await stopping;
    signal.throwIfAborted();
    if (fault !== undefined) throw fault.thrown;
    if (failure !== null) throw missing(command, failure);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
  if (ended === "exited" && child.signalCode !== null) ended = "signalled";
  return {
    exitCode: child.exitCode,
    stdout: Buffer.concat(stdout).toString(encoding),
    stderr: stderr.text(),
    ended,
  };
};

const start = ({ command, args, cwd, env, input, inputFd, inheritFd, wall }: Command): ChildProcess => {
  const stdio: StdioOptions = [inputFd ?? (input === undefined ? "ignore" : "pipe"), "pipe", "pipe"];
  const filter = wall?.filter ?? null;
  if (filter !== null) stdio.push("pipe");
  else if (inheritFd !== undefined) stdio.push(inheritFd);
  const [file, ...rest] = [...(wall?.prefix ?? []), command, ...args];
  const child = spawn(file ?? command, rest, { cwd, env, stdio, detached: true });
  if (filter !== null) feed(child.stdio[3] as Writable, filter);
  const { pid } = child;
  // Background processes would hold its pipes open.
  if (wall !== undefined && pid !== undefined) child.once("exit", () => signalGroup(pid, "SIGKILL"));
  return child;
};

/** A program may end without reading it: its exit says so. */
const feed = (to: Writable, input: Command["input"]): void => void to.on("error", () => {}).end(input);

const end = async (child: ChildProcess, closed: Promise<unknown>): Promise<void> => {
  if (child.pid === undefined) return;
  await endGroup(child.pid, 2);
  await closed;
};

/** Resolves 2 s after the exit: a process that has left the group may hold the pipes open for ever. */
const abandoned = async (child: ChildProcess): Promise<null> => {
  await new Promise((resolve) => child.once("exit", resolve));
  await delay(2000, undefined, { ref: false });
  for (const stream of [child.stdout, child.stderr]) stream?.destroy();
  return null;
};

const missing = ({ command, cwd }: Command, failure: unknown): Error => {
  const why = failure instanceof Error ? failure.message : String(failure);
  return new CommandMissingError(`${command} could not be started in ${cwd}: ${why}`, { cause: failure });
};
