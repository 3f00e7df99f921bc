import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import type { Duplex, Readable, Writable } from "node:stream";
import { promisify } from "node:util";
import { followDescendants } from "./descendants.ts";
import { findExecutable } from "./executable.ts";
import { endGroup, familyOfGroup } from "./group.ts";
import { identifyChild, type ProcessIdentity } from "./identity.ts";
import { sweep, type SweepReport } from "./sweep.ts";
import { processTable, readAnyRow, type Marker, type ProcessRow } from "./table.ts";

export type SuperviseOptions = {
  /** A path, or a name that is looked up on `env.PATH`. */
  command: string;
  args: readonly string[];
  cwd: string;
  /** The whole environment of the process; the marker is added. */
  env: Record<string, string>;
  /** What only the program gets, in its sandbox. Absent: nothing. */
  within?: Within;
  /** Marks the processes of this run: must be unique to it. */
  marker: Marker;
  /** A sandbox around it. */
  box?: Box | null;
  /** Written to the standard input, which is then closed. Absent: `stdin` is the caller's to write and end. */
  stdin?: string;
};

type Within = {
  /**
   * Further variables, with names that a shell knows as such: what others wrote must not reach what puts the sandbox around it,
   * nor any arguments, which everybody on the machine can read. Absent: none.
   */
  env?: Readonly<Record<string, string>>;
  /** For `sh`: runs before the program; what it leaves in the background goes on beside it. Absent: nothing. */
  before?: string;
};

export type Box = {
  /** Program and arguments that come before the command. */
  prefix: readonly string[];
  /**
   * Of bubblewrap, the end of whose first process ends all that runs in it: a file that it reads as descriptor 3. On
   * descriptor 4 the prefix says a line when the end of this process would end the sandbox; it must not start the command
   * before it is answered. Null: the command takes the prefix's place.
   */
  filter: string | null;
  /** See `Limited`. Absent: it limits nothing. */
  exceeded?: () => Promise<number | null>;
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
  /** To be read to the end, with listeners before the first await: a full pipe stalls, and unheard output is lost. */
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
  /** The limit of memory, bytes, because of which the kernel has ended a process of it; null: none. */
  exceeded: number | null;
};

/** How long the pipes may stay open after the exit, and how long the exit may take after the KILL. */
const patience = { pipesMs: 2000, exitMs: 10_000 };

/**
 * Starts a program as the leader of its own session and process group, and ends everything that it starts with it. A program
 * that cannot be started is a value, not an exception.
 */
export const supervise = async (options: SuperviseOptions): Promise<Spawned> => {
  const { cwd, marker, box = null } = options;
  const given = Object.entries(options.within?.env ?? {});
  // Under names that mean nothing to anybody, until just before the program.
  const hidden = Object.fromEntries(given.map(([, value], at) => [`${hiddenName}${at}`, value]));
  const env = { ...options.env, ...hidden, [marker.name]: marker.value };
  const executable = await findExecutable(options.command, env["PATH"] ?? "");
  if (!executable.ok) return executable;
  if (!(await isDirectory(cwd)))
    return { ok: false, code: "no_directory", message: `The working directory ${cwd} does not exist.` };
  // Inside, a link to the program may not be there.
  const program = box === null ? executable.path : await realpath(executable.path);
  const [file = "", ...args] = [
    ...(await prefixOf(box)),
    ...preceding(options.within ?? {}),
    program,
    ...options.args,
  ];
  const filter = box?.filter ?? null;
  const child = await start(file, args, { cwd, env, filter });
  if (child instanceof Error) return spawnFailure(executable.path, child);
  // No await from the start to the return: see `stdout`.
  const { identity, ended } = follow(child, marker, box);
  if (options.stdin !== undefined) child.stdin.end(options.stdin);
  const { pid, stdin, stdout, stderr } = child;
  const { promise, stop } = ended;
  return { ok: true, process: { pid, identity, stdin, stdout, stderr, ended: promise, stop } };
};

/** Arguments that come before the program. */
const preceding = ({ env = {}, before = "" }: Within): string[] => {
  const named = Object.keys(env).map(
    (name, at) => `export ${name}="$${hiddenName}${at}"; unset ${hiddenName}${at}; `,
  );
  const scripts = [named.join(""), before === "" ? "" : `${before}\n`].filter((script) => script !== "");
  return scripts.flatMap((script) => ["/bin/sh", "-c", `${script}exec "$@"`, "sh"]);
};

const hiddenName = "SVC_WITHIN_";

const isDirectory = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => null))?.isDirectory() === true;

/** bubblewrap sees to it itself that it dies with the service. */
const prefixOf = async (box: Box | null): Promise<readonly string[]> => {
  const { prefix, filter } = box ?? { prefix: [], filter: null };
  return filter === null ? [...(await parentDeathSignal()), ...prefix] : prefix;
};

const follow = (child: Child, marker: Marker, box: Box | null) => {
  // What bubblewrap starts ends with it.
  const isContained = (box?.filter ?? null) !== null;
  // A program may end without reading its input: its exit says so, not a broken pipe.
  child.stdin.on("error", () => {});
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const identity = identifyChild(child.pid, exited);
  // Not everybody asks for it.
  identity.catch(() => undefined);
  const leader = isContained ? null : readAnyRow(child.pid);
  const group = isContained ? innerGroup(child, exited) : async () => child.pid;
  const descendants = leader === null ? null : followDescendants(leader);
  return { identity, ended: watchEnd(child, { exited, marker, group, descendants, box }) };
};

type Watched = {
  exited: Promise<void>;
  marker: Marker;
  /** Whom to signal. */
  group: () => Promise<number>;
  descendants: ReturnType<typeof followDescendants> | null;
  box: Box | null;
};

/** Follows the process until nothing that it started is left. */
const watchEnd = (child: Child, { exited, marker, group, descendants, box }: Watched) => {
  let groupEnded: Promise<ProcessRow[]> = Promise.resolve([]);
  const overdue = Promise.withResolvers<void>();
  const drained = Promise.all([child.stdout, child.stderr].map(closed)).then(() => false);

  const end = async (): Promise<EndedProcess> => {
    await Promise.race([exited, overdue.promise]);
    const seen = descendants?.end() ?? [];
    // Read at once: while the group has members its number cannot be reused.
    const members = await familyOfGroup(child.pid);
    const known = [...seen, ...members, ...(await groupEnded)];
    using late = timer(patience.pipesMs);
    const [report, pipesHeldOpen] = await Promise.all([
      sweep(marker, known),
      Promise.race([drained, late.passed.then(() => true)]),
    ]);
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    const exceeded = (await box?.exceeded?.()) ?? null;
    return { exitCode: child.exitCode, signal: child.signalCode, pipesHeldOpen, exceeded, ...report };
  };

  const promise = end();
  let stopped = false;
  const stop = async ({ graceSeconds }: { graceSeconds: number }): Promise<EndedProcess> => {
    if (stopped || child.exitCode !== null || child.signalCode !== null) return promise;
    stopped = true;
    groupEnded = group().then((leader) => endGroup(leader, graceSeconds));
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

type Child = ChildProcess & { pid: number; stdin: Writable; stdout: Readable; stderr: Readable };

const start = async (
  file: string,
  args: string[],
  { filter, ...options }: { cwd: string; env: Record<string, string>; filter: string | null },
): Promise<Child | Error> => {
  let opened: number | null = null;
  try {
    opened = filter === null ? null : openSync(filter, "r");
    const more = opened === null ? [] : [opened, "pipe" as const];
    const stdio = ["pipe" as const, "pipe" as const, "pipe" as const, ...more];
    const child = spawn(file, args, { ...options, detached: true, stdio });
    if (child.pid !== undefined) return child as Child;
    const [error]: unknown[] = await once(child, "error");
    return asError(error);
  } catch (error) {
    return asError(error);
  } finally {
    if (opened !== null) closeSync(opened);
  }
};

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));

/**
 * Lets a sandbox begin, and finds its process group, which its first process leads: bubblewrap itself, outside of it, would end
 * all without a grace. Of one that did not begin, its own.
 */
const innerGroup = (child: Child, exited: Promise<void>): (() => Promise<number>) => {
  const asked = child.stdio[4] as Duplex;
  asked.on("error", () => undefined);
  const begun = new Promise<void>((resolve) => {
    asked.once("data", () => {
      asked.end("\n");
      resolve();
    });
  });
  return async () => {
    await Promise.race([begun, exited]);
    return (await processTable()).find(({ parent }) => parent === child.pid)?.pid ?? child.pid;
  };
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
 * Command prefix that makes the kernel send TERM to a process when its parent dies: a killed service leaves no agents.
 * util-linux `setpriv` preserves the pid. Empty where it is missing; recovery then ends the agents.
 */
const parentDeathSignal = (): Promise<string[]> =>
  (deathPrefix ??= promisify(execFile)("setpriv", [...deathOptions, "true"]).then(
    () => ["setpriv", ...deathOptions],
    () => [],
  ));

const deathOptions = ["--pdeathsig", "TERM", "--"];
let deathPrefix: Promise<string[]> | undefined;
