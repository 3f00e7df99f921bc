import { mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { findExecutable } from "./executable.ts";

export type Limits = {
  /** Of all processes of a run together, bytes; null: no limit. */
  memoryBytes: number | null;
  /** Most processes and threads at once; null: no limit. */
  processes: number | null;
};

/** How a run is limited. Disposed of when its processes have ended. */
export type Limited = AsyncDisposable & {
  /** What holds all that was asked for. `rlimit`: memory is limited for each process by itself. */
  kind: "cgroup" | "rlimit" | "none";
  /** Command prefixes: before that of a sandbox, and before the program in it. */
  outside: string[];
  inside: string[];
  /** What cannot be held here, for the user. */
  warnings: string[];
  /** The limit of memory, bytes, when the kernel has ended a process because of it; else null. */
  exceeded: () => Promise<number | null>;
};

/**
 * Limits for one run: by control groups where they can be made, else by rlimits. When memory is short the kernel ends the run
 * before the service. `countsApart`: the run has a user namespace, in which its processes are counted.
 */
export const limit = async (asked: Limits, countsApart: boolean, name: string): Promise<Limited> => {
  const groups = await (own ??= ownGroups());
  const isAsked = asked.memoryBytes !== null || asked.processes !== null;
  const made = isAsked && groups !== null ? await makeGroups(groups, asked, name) : null;
  const held = made === null && isAsked ? await rlimits(asked, countsApart) : nothing;
  const entered = made ?? [];
  return {
    ...held,
    kind: made === null ? held.kind : "cgroup",
    outside: [...enter, ...entered, "--"],
    exceeded: async () => ((await wereKilled(entered)) ? asked.memoryBytes : null),
    [Symbol.asyncDispose]: async () => void (await Promise.all(entered.map(remove))),
  };
};

/** Whether the kernel has ended a process for its group's own limit. Version 1 does not tell whose limit it was. */
export const wereKilled = async (directories: readonly string[]): Promise<boolean> => {
  const files = directories.flatMap((path) =>
    ["memory.events", "memory.oom_control"].map((name) => join(path, name)),
  );
  const texts = await Promise.all(files.map((file) => readFile(file, "utf8").catch(() => "")));
  return texts.some((text) => /^oom_kill [1-9]/m.test(text) && !/^oom 0$/m.test(text));
};

type Held = Pick<Limited, "kind" | "inside" | "warnings">;
const nothing: Held = { kind: "none", inside: [], warnings: [] };

/** A shell that enters the groups, makes itself the kernel's first choice, and becomes the program. */
const enter = [
  "/bin/sh",
  "-c",
  'echo 500 >/proc/self/oom_score_adj; until [ "$1" = -- ]; do echo 0 >"$1/cgroup.procs" || exit 126; shift; done; shift; exec "$@"',
  "sh",
];

/** Directories of the service's own control groups, in which those of runs are made. Version 2 has one for both. */
export type Groups = { memory: string; processes: string; version: 1 | 2 };

let own: Promise<Groups | null> | undefined;

const ownGroups = async (): Promise<Groups | null> => {
  const text = await readFile("/proc/self/cgroup", "utf8").catch(() => "");
  return await findGroups(text, "/sys/fs/cgroup");
};

/**
 * @param text of /proc/self/cgroup
 * @param root where the hierarchies are mounted
 * @returns null: there are none that the service may use
 */
export const findGroups = async (text: string, root: string): Promise<Groups | null> => {
  const pathOf = (controller: string): string | undefined =>
    text
      .split("\n")
      .map((line) => /^\d+:([^:]*):(.*)$/.exec(line))
      .find((line) => line?.[1]?.split(",").includes(controller))?.[2];
  const [memory, processes, unified] = [pathOf("memory"), pathOf("pids"), pathOf("")];
  if (memory !== undefined && processes !== undefined)
    return { memory: join(root, "memory", memory), processes: join(root, "pids", processes), version: 1 };
  const directory = unified === undefined ? null : await delegated(join(root, unified));
  return directory === null ? null : { memory: directory, processes: directory, version: 2 };
};

/**
 * Readies a control group of version 2 for groups of runs: one that has such may hold no processes, so the service moves
 * into a group of its own. Null: others are in it as well, or it is not the service's to divide.
 */
const delegated = async (found: string): Promise<string | null> => {
  const directory = basename(found) === leaf ? dirname(found) : found;
  try {
    const controllers = (await readFile(join(directory, "cgroup.controllers"), "utf8")).trim().split(" ");
    if (!controllers.includes("memory") || !controllers.includes("pids")) return null;
    // It may be there from before.
    await mkdir(join(directory, leaf)).catch(() => undefined);
    await writeFile(join(directory, leaf, "cgroup.procs"), String(process.pid));
    try {
      await writeFile(join(directory, "cgroup.subtree_control"), "+memory +pids");
    } catch (error) {
      await writeFile(join(directory, "cgroup.procs"), String(process.pid));
      await remove(join(directory, leaf));
      throw error;
    }
    return directory;
  } catch {
    return null;
  }
};

const leaf = "svc-service";

/** Makes the groups of one run: their directories. Null: they cannot be made. */
export const makeGroups = async (groups: Groups, limits: Limits, name: string): Promise<string[] | null> => {
  const lines = linesOf(limits, groups.version);
  const directories = [...new Set(lines.map(({ of }) => join(groups[of], name)))];
  try {
    for (const directory of directories) await mkdir(directory);
    for (const { of, file, value, isNeeded } of lines)
      await writeFile(join(groups[of], name, file), String(value)).catch((error: unknown) => {
        if (isNeeded) throw error;
      });
    return directories;
  } catch {
    await Promise.all(directories.map(remove));
    return null;
  }
};

/** Removes the control groups whose names begin so and that hold no process. */
export const removeGroups = async (beginning: string, within?: Groups): Promise<void> => {
  const groups = within ?? (await (own ??= ownGroups()));
  for (const parent of groups === null ? [] : new Set([groups.memory, groups.processes])) {
    const names = await readdir(parent).catch(() => []);
    const left = names.filter((name) => name.startsWith(beginning));
    await Promise.allSettled(left.map((name) => rmdir(join(parent, name))));
  }
};

type Line = { of: "memory" | "processes"; file: string; value: number; isNeeded: boolean };

/** What is written, in this order. The files of swap are missing where it is not counted. */
const linesOf = ({ memoryBytes, processes }: Limits, version: 1 | 2): Line[] => {
  const [most, swap] =
    version === 1
      ? ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
      : ["memory.max", "memory.swap.max"];
  const lines: Line[] = [];
  if (memoryBytes !== null)
    lines.push(
      { of: "memory", file: most, value: memoryBytes, isNeeded: true },
      { of: "memory", file: swap, value: version === 1 ? memoryBytes : 0, isNeeded: false },
    );
  if (processes !== null) lines.push({ of: "processes", file: "pids.max", value: processes, isNeeded: true });
  return lines;
};

/** The kernel takes a moment to see that the last process has ended. */
const remove = async (directory: string): Promise<void> => {
  for (let tries = 0; tries < 100; tries += 1) {
    const error = await rmdir(directory).then(() => null, codeOf);
    if (error !== "EBUSY") return;
    await delay(20);
  }
};

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error ? String(error.code) : "";

/** The kernel does not count the processes of root, and those of others only together with all of the same user. */
const rlimits = async ({ memoryBytes, processes }: Limits, countsApart: boolean): Promise<Held> => {
  const found = await findExecutable("prlimit", "/usr/bin:/bin");
  const counts = countsApart && process.getuid?.() !== 0;
  const options = [
    ...(memoryBytes === null ? [] : [`--data=${memoryBytes}`]),
    ...(processes === null || !counts ? [] : [`--nproc=${processes}`]),
  ];
  const unheld = [
    ...(memoryBytes === null || found.ok ? [] : ["memory"]),
    ...(processes === null || (found.ok && counts) ? [] : ["the number of processes"]),
  ];
  return {
    kind: unheld.length === 0 ? "rlimit" : "none",
    inside: found.ok && options.length > 0 ? [found.path, ...options] : [],
    warnings: unheld.map(
      (what) =>
        `The sandbox's limit of ${what} is not held: the service may make no control groups here. With systemd, set Delegate=yes; in a container, limit the container.`,
    ),
  };
};
