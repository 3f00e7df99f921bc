import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import type { Readable, Writable } from "node:stream";
import { promisify } from "node:util";
import { followDescendants } from "./descendants.ts";
import { findExecutable } from "./executable.ts";
import { endGroup, familyOfGroup } from "./group.ts";
import { identifyChild, type ProcessIdentity } from "./identity.ts";
import { sweep, type SweepOptions, type SweepReport } from "./sweep.ts";
import { readAnyRow, type Marker, type ProcessRow } from "./table.ts";

export type SuperviseOptions = {
  /** A path, or a name that is looked up on `env.PATH`. */
  command: string;
  args: readonly string[];
  cwd: string;
  /** The whole environment of the process; the marker is added. */
  env: Record<string, string>;
  /** Marks the processes of this run: must be unique to it. */
  marker: Marker;
  /** Only this run works there: daemons that it leaves there are ended with it (see `createDaemonCheck`). */
  directories?: readonly string[];
  /** A sandbox around it. */
  box?: Box | null;
  /** Written to the standard input, which is then closed. Absent: `stdin` is the caller's to write and end. */
  stdin?: string;
};

/** bubblewrap: the end of its first process ends all that runs in it. */
export type Box = {
  /** Its program and arguments, which come before the command. */
  prefix: readonly string[];
  /** A file that it reads as descriptor 3. To descriptor 4 it writes what `--info-fd` tells. */
  filter: string;
};

export type Spawned = { ok: true; process: SupervisedProcess } | SpawnFailure;

export type SpawnFailure = {
  ok: false;
  code: "not_found" | "not_executable" | "no_directory" | "refused";
  /** A sentence for the user. */
  message: string;
};

export type SupervisedProcess = {
  pid: number;
  /** Null when the process ended before it could be read; rejects when it lives and cannot be identified. */
  identity: Promise<ProcessIdentity | null>;
  stdin: Writable;
  /**
   * Both must be read to the end: a full pipe stalls the process. Listen to them before the first await: output without a
   * listener is lost when the process has exited.
   */
  stdout: Readable;
  stderr: Readable;
  /** Resolves, never rejects, when the process and everything that it started have ended. */
  ended: Promise<EndedProcess>;
  /** TERM to the group, KILL after the grace, then the sweep. A second call has no effect. Resolves with `ended`. */
  stop: (options: { graceSeconds: number }) => Promise<EndedProcess>;
};

export type EndedProcess = SweepReport & {
  exitCode: number | null;
  signal: NodeJS.Signals | null;
  /** A process that outlived the leader held the pipes open past the wait: the end of the output may be missing. */
  pipesHeldOpen: boolean;
};

/** How long the pipes may stay open after the exit, and how long the exit may take after the KILL. */
const patience = { pipesMs: 2000, exitMs: 10_000 };

/**
 * Starts a program as the leader of its own session and process group, and ends everything that it starts with it. A program
 * that cannot be started is a value, not an exception.
 */
export const supervise = async (options: SuperviseOptions): Promise<Spawned> => {
  const { cwd, marker } = options;
  const env = { ...options.env, [marker.name]: marker.value };
  const executable = await findExecutable(options.command, env["PATH"] ?? "");
  if (!executable.ok) return executable;
  if (!(await stat(cwd).catch(() => null))?.isDirectory()) {
    return { ok: false, code: "no_directory", message: `The working directory ${cwd} does not exist.` };
  }
  const directories = await Promise.all(
    (options.directories ?? []).map((path) => realpath(path).catch(() => path)),
  );
  const { box = null } = options;
  const [file = "", ...args] = [...(await commandOf(executable.path, box)), ...options.args];
  const child = start(file, args, { cwd, env, box });
  if (child instanceof Error) return spawnFailure(executable.path, child);
  if (child.pid === undefined) return spawnFailure(executable.path, await spawnError(child));
  // No await from here to the return: see `stdout`.

  // A program may end without reading its input: its exit says so, not a broken pipe.
  child.stdin.on("error", () => {});
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const identity = identifyChild(child.pid, exited);
  // Not everybody asks for it.
  identity.catch(() => undefined);
  const leader = box === null ? readAnyRow(child.pid) : null;
  const ended = watchEnd(child, child.pid, {
    exited,
    marker,
    group: box === null ? Promise.resolve(child.pid) : innerGroup(child, exited),
    ...(leader !== null && {
      descendants: followDescendants(leader),
      workplace: { since: leader.startTime, directories },
    }),
  });
  if (options.stdin !== undefined) child.stdin.end(options.stdin);
  return {
    ok: true,
    process: {
      pid: child.pid,
      identity,
      stdin: child.stdin,
      stdout: child.stdout,
      stderr: child.stderr,
      ended: ended.promise,
      stop: ended.stop,
    },
  };
};

/** Inside, a link to the program may not be there. */
const commandOf = async (path: string, box: Box | null): Promise<string[]> =>
  box === null ? [...(await parentDeathSignal()), path] : [...box.prefix, await realpath(path)];

type Watched = Pick<SweepOptions, "workplace"> & {
  exited: Promise<void>;
  marker: Marker;
  /** Whom to signal. */
  group: Promise<number>;
  descendants?: ReturnType<typeof followDescendants>;
};

/** Follows the process until nothing that it started is left. */
const watchEnd = (
  child: Child,
  pid: number,
  { exited, marker, group, descendants, workplace }: Watched,
): { promise: Promise<EndedProcess>; stop: SupervisedProcess["stop"] } => {
  let groupEnded: Promise<ProcessRow[]> = Promise.resolve([]);
  const overdue = Promise.withResolvers<void>();
  const drained = Promise.all([child.stdout, child.stderr].map(closed)).then(() => false);

  const end = async (): Promise<EndedProcess> => {
    await Promise.race([exited, overdue.promise]);
    const seen = descendants?.end() ?? [];
    // Read at once: while the group has members its number cannot be reused.
    const members = await familyOfGroup(pid);
    const known = [...seen, ...members, ...(await groupEnded)];
    using late = timer(patience.pipesMs);
    const [report, pipesHeldOpen] = await Promise.all([
      sweep(marker, { known, workplace }),
      Promise.race([drained, late.passed.then(() => true)]),
    ]);
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    return { exitCode: child.exitCode, signal: child.signalCode, pipesHeldOpen, ...report };
  };

  const promise = end();
  let stopped = false;
  const stop = async ({ graceSeconds }: { graceSeconds: number }): Promise<EndedProcess> => {
    if (stopped || child.exitCode !== null || child.signalCode !== null) return promise;
    stopped = true;
    groupEnded = group.then((leader) => endGroup(leader, graceSeconds));
    await groupEnded;
    // A process stuck in the kernel survives the KILL: it is reported.
    using late = timer(patience.exitMs);
    void late.passed.then(overdue.resolve);
    return await promise;
  };
  return { promise, stop };
};

/** Resolves after the time; never once it has been disposed of. */
const timer = (ms: number): { passed: Promise<void>; [Symbol.dispose]: () => void } => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const handle = setTimeout(resolve, ms);
  return { passed: promise, [Symbol.dispose]: () => clearTimeout(handle) };
};

type Child = ChildProcess & { stdin: Writable; stdout: Readable; stderr: Readable };

const start = (
  file: string,
  args: string[],
  { box, ...options }: { cwd: string; env: Record<string, string>; box: Box | null },
): Child | Error => {
  let filter: number | null = null;
  try {
    filter = box === null ? null : openSync(box.filter, "r");
    const more = filter === null ? [] : [filter, "pipe" as const];
    // All three are pipes.
    return spawn(file, args, {
      ...options,
      detached: true,
      stdio: ["pipe", "pipe", "pipe", ...more],
    }) as Child;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  } finally {
    if (filter !== null) closeSync(filter);
  }
};

/**
 * The process group of a sandbox, which its first process leads: bubblewrap itself, outside of it, would end all without a
 * grace. Of one that has ended before it told, its own.
 */
const innerGroup = async (child: Child, exited: Promise<void>): Promise<number> => {
  const told = child.stdio[4] as Readable;
  let text = "";
  told.on("error", () => undefined);
  told.on("data", (piece: Buffer) => (text += piece.toString("latin1")));
  await Promise.race([once(told, "end"), exited]);
  return Number(/"child-pid": (\d+)/.exec(text)?.[1] ?? child.pid);
};

const spawnError = async (child: ChildProcess): Promise<Error> => {
  const [error]: unknown[] = await once(child, "error");
  return error instanceof Error ? error : new Error(String(error));
};

const spawnFailure = (path: string, error: Error): SpawnFailure => {
  const code = "code" in error ? String(error.code) : "";
  if (code === "ENOENT") {
    const message = `The program ${path} could not be started: the interpreter that its first line names does not exist.`;
    return { ok: false, code: "not_found", message };
  }
  if (code === "EACCES")
    return { ok: false, code: "not_executable", message: `The program ${path} may not be executed.` };
  return {
    ok: false,
    code: "refused",
    message: `The program ${path} could not be started: ${error.message}.`,
  };
};

const closed = (stream: Readable): Promise<void> =>
  new Promise((resolve) => {
    // An error closes the stream, too; the rest of the output is missing then.
    stream.once("error", () => {});
    stream.once("close", () => resolve());
  });

/**
 * Command prefix that makes the kernel send TERM to a process when its parent dies, so that a killed service leaves no
 * agents running: util-linux `setpriv`, which preserves the pid. Empty where it is missing (or BusyBox's, which lacks the
 * option); recovery at the next start then ends the agents.
 */
const parentDeathSignal = (): Promise<string[]> => (deathPrefix ??= findPrefix());

let deathPrefix: Promise<string[]> | undefined;

const setpriv = ["setpriv", "--pdeathsig", "TERM", "--"];

const findPrefix = async (): Promise<string[]> => {
  const [program = "", ...args] = setpriv;
  return promisify(execFile)(program, [...args, "true"]).then(
    () => setpriv,
    () => [],
  );
};
