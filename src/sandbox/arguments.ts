import { existsSync } from "node:fs";
import { isBelow } from "../lib/is-below.ts";
import { sshDropIns } from "../lib/process/landlock.ts";
import type { Shown } from "./configuration.ts";

/** What a sandboxed run may see and use. All paths are absolute, without links, and exist. */
export type View = {
  /** At their own paths. */
  readable: readonly string[];
  writable: readonly string[];
  /** Empty, and private to the run. */
  home: string;
  /** Writable, below `home`: `from` there is at `to` inside. */
  mounts: readonly { from: string; to: string }[];
  cwd: string;
  /** Private; its size is limited, bytes. */
  temporary: { path: string; bytes: number };
  /** Of the machine, if they are there: links of the root directory (`/bin` → `usr/bin`) or directories, parts of /etc. */
  machine: readonly Shown[];
  /** The door's socket; null: there is none. */
  socket: string | null;
  /** Descriptor of the filter of system calls. */
  seccomp: number;
};

/** Where a run finds the door. */
export const socketInside = "/run/door.sock";

/** The model's name inside: requests to it go through the socket. */
export const modelHost = "model.invalid";

/**
 * Arguments of bubblewrap 0.8, before the program and its own. The root is empty, and what is needed is added: what nobody
 * thought of is not there.
 *
 * | what | why |
 * |---|---|
 * | all namespaces | nothing of other processes, users and the network; the end of the first process ends all |
 * | `--cap-drop ALL` | as root, /usr could be mounted again as writable |
 * | `--disable-userns` | no new user namespace, in which all capabilities come back |
 * | /proc/sys, /proc/pressure read-only, after /proc | as root, core_pattern is writable, and runs a program outside |
 * | lists of the kernel's memory masked | root reads them without any capability, and they help to attack the kernel |
 * | the root and /dev read-only, when all is there | they are in memory, and their size is not limited |
 * | `--new-session` | no input can be pushed into a terminal of the service, and its group can be signalled alone |
 * | `--die-with-parent` | nothing outlives a killed service |
 */
export const bwrapArguments = (view: View): string[] => [
  ..."--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net".split(" "),
  ..."--disable-userns --cap-drop ALL --die-with-parent --new-session".split(" "),
  "--seccomp",
  String(view.seccomp),
  "--ro-bind",
  "/usr",
  "/usr",
  ...view.machine.flatMap(({ path, target }) =>
    target === null ? ["--ro-bind-try", path, path] : ["--symlink", target, path],
  ),
  ...(process.getuid?.() !== 0 && existsSync(sshDropIns) ? sized(sshDropIns, 4096) : []),
  ..."--dev /dev --proc /proc --ro-bind /proc/sys /proc/sys".split(" "),
  ..."--ro-bind-try /proc/pressure /proc/pressure".split(" "),
  ...kernelLists.flatMap((path) => ["--ro-bind", "/dev/null", path]),
  ...sized("/dev/shm", view.temporary.bytes),
  ...sized("/run", smallBytes),
  ...sized("/var", smallBytes),
  ...sized(view.temporary.path, view.temporary.bytes),
  ...(isBelow(view.home, view.temporary.path) ? [] : sized(view.home, view.temporary.bytes)),
  ...view.mounts.flatMap(({ from, to }) => ["--bind", from, to]),
  ...bindings(view),
  ...(view.socket === null ? [] : ["--ro-bind", view.socket, socketInside]),
  ..."--remount-ro /dev --remount-ro / --chdir".split(" "),
  view.cwd,
  "--",
];

const kernelLists = "kallsyms kpagecgroup kpagecount kpageflags pagetypeinfo slabinfo timer_list vmallocinfo"
  .split(" ")
  .map((name) => `/proc/${name}`)
  .filter((path) => existsSync(path));

const smallBytes = 64 * 1024 * 1024;

const sized = (path: string, bytes: number): string[] => ["--size", String(bytes), "--tmpfs", path];

/** A directory comes before what is in it, so that the inner one decides. Of one path, writable decides. */
const bindings = ({ readable, writable }: View): string[] => {
  const all = new Map<string, string>(readable.map((path) => [path, "--ro-bind"]));
  for (const path of writable) all.set(path, "--bind");
  return [...all].toSorted(([a], [b]) => (a < b ? -1 : 1)).flatMap(([path, option]) => [option, path, path]);
};
