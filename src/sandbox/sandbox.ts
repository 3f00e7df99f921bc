import { randomUUID } from "node:crypto";
import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { mkdtemp, realpath, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { findExecutable } from "../lib/process/executable.ts";
import { supervise, type Box } from "../lib/process/supervise.ts";
import { bwrapArguments, socketInside, type View } from "./arguments.ts";
import { openDoor, type Route } from "./door.ts";
import type { AllowedHost } from "../lib/allowed-hosts.ts";
import { explain, machineFacts } from "./probe.ts";
import { keyringFilter } from "./seccomp.ts";

/** What one run may use beside its own worktree and configuration. */
export type Allowed = {
  hosts: readonly AllowedHost[];
  /** `*`: the host's network. */
  openNetwork: boolean;
  read: readonly string[];
  write: readonly string[];
  /** Room for temporary files, bytes. */
  temporaryBytes: number;
  /** Of all its processes together, bytes; null: no limit. */
  memoryBytes: number | null;
  /** Most processes and threads at once; null: no limit. */
  processes: number | null;
};

export type Run = {
  /** The agent's program, a path or a name on `path`. */
  command: string;
  path: string;
  home: string;
  /** The worktree. */
  cwd: string;
  /** What belongs to this run alone, besides. */
  writable: readonly string[];
  /** What it shares with others: objects that its clone borrows. */
  readable: readonly string[];
  routes: readonly Route[];
  allowed: Allowed;
  onDenied: (name: string) => void;
};

export type Entered = AsyncDisposable & {
  box: Box;
  /** Variables that lead to the door, and the PATH on which the programs are found inside. */
  env: Record<string, string>;
  /** How memory and processes are limited. */
  limits: "cgroup" | "rlimit" | "none";
  /** What was asked for and cannot be had here, for the user. */
  warnings: string[];
};

export type SandboxMode = "off" | "bwrap" | "landlock";

export type Sandbox = {
  mode: SandboxMode;
  /** Readies a sandbox for one run; null: there is none. It ends when it is disposed of. */
  enter: (run: Run) => Promise<Entered | null>;
};

/**
 * The sandbox that SERVICE_AGENT_SANDBOX names. `auto`: the first that works here; with none the warning says why.
 * `reserved`: places of the service that no link may lead a run to.
 * @throws Error with a sentence, when one that was named does not work
 */
export const createSandbox = async (
  wanted: SandboxMode | "auto",
  _reserved: readonly string[] = [],
): Promise<{ sandbox: Sandbox; warning: string | null }> => {
  if (wanted === "off") return { sandbox: noSandbox, warning: null };
  try {
    return { sandbox: await createBwrap(), warning: null };
  } catch (error) {
    if (wanted !== "auto") throw error;
    return {
      sandbox: noSandbox,
      warning: `Agents run without a sandbox: ${error instanceof Error ? error.message : String(error)}`,
    };
  }
};

export const noSandbox: Sandbox = { mode: "off", enter: async () => null };

/** Where CLIs that want TCP find the door inside. */
const proxyPort = 3128;

/** Parts of the machine's configuration that programs read and that hold no secrets. */
const configuration =
  "passwd group hosts nsswitch.conf localtime timezone alternatives ld.so.cache ld.so.conf ld.so.conf.d ssl/certs ssl/openssl.cnf ca-certificates pki/tls/certs os-release debian_version mime.types services protocols inputrc terminfo java-17-openjdk python3 perl gitconfig gitattributes"
    .split(" ")
    .map((name) => `/etc/${name}`);

/**
 * Finds out whether bubblewrap runs here, with all that a run gets.
 * @throws Error with a sentence for the operator
 */
export const createBwrap = async (): Promise<Sandbox> => {
  const found = await findExecutable("bwrap", process.env["PATH"] ?? "");
  if (!found.ok) throw new Error(explain({ ...(await machineFacts()), stderr: null }));
  const program = found.path;
  const forwarder = await findExecutable("socat", "/usr/bin:/bin");
  const sandbox: Sandbox = {
    mode: "bwrap",
    enter: (run) => enter(run, { program, forwarder: forwarder.ok ? forwarder.path : null }),
  };
  await probe(sandbox);
  return sandbox;
};

const enter = async (
  run: Run,
  { program, ...found }: { program: string; forwarder: string | null },
): Promise<Entered> => {
  const { allowed, routes, onDenied } = run;
  // On the host's network all its users could reach the door by it.
  const forwarder = allowed.openNetwork ? null : found.forwarder;
  const directory = await mkdtemp(join(tmpdir(), "svc-box-"));
  const filter = join(directory, "seccomp");
  await writeFile(filter, keyringFilter(), { mode: 0o600 });
  const door = await openDoor({ routes, hosts: allowed.hosts, onDenied });
  const programs = await programsOf(run);
  const real = async (paths: readonly string[]): Promise<string[]> =>
    (await Promise.all(paths.map((path) => realpath(path).catch(() => null)))).filter(
      (path) => path !== null,
    );
  const cwd = await realpath(run.cwd);
  const view: View = {
    readable: [...programs.readable, ...(await real([...run.readable, ...allowed.read]))],
    writable: [cwd, ...(await real([...run.writable, ...allowed.write]))],
    home: run.home,
    cwd,
    temporary: { path: "/tmp", bytes: allowed.temporaryBytes },
    root: rootLinks,
    optional: allowed.openNetwork ? [...configuration, "/etc/resolv.conf"] : configuration,
    socket: door.socket,
    openNetwork: allowed.openNetwork,
    descriptors: { seccomp: 3, info: 4 },
  };
  const proxy = `http://127.0.0.1:${proxyPort}`;
  const listen = forwarder === null ? [] : ["/bin/sh", "-c", forwarding(forwarder, allowed.hosts), "sh"];
  return {
    box: { prefix: [program, ...bwrapArguments(view), ...listen], filter },
    limits: "none",
    warnings: [],
    env: {
      PATH: [...programs.path, run.path].join(delimiter),
      TMPDIR: "/tmp",
      ...(forwarder !== null && {
        HTTP_PROXY: proxy,
        HTTPS_PROXY: proxy,
        http_proxy: proxy,
        https_proxy: proxy,
        NO_PROXY: noProxy,
        no_proxy: noProxy,
      }),
    },
    [Symbol.asyncDispose]: async () => {
      await door[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
};

/** The name of the model's host inside: requests to it go through the socket. */
export const modelHost = "model.invalid";

const noProxy = `localhost,127.0.0.1,::1,${modelHost}`;

/**
 * Starts forwarders beside the program, which takes the shell's place: for proxies, and for each port of the host's loopback
 * that the operator allows, because no client asks a proxy for that.
 */
const forwarding = (program: string, hosts: readonly AllowedHost[]): string => {
  const ports = hosts
    .filter(({ name, local }) => local && (name === "127.0.0.1" || name === "localhost"))
    .map(({ name, port }) => [port, `PROXY:127.0.0.1:${name}:${port},proxyport=${proxyPort}`]);
  return [[proxyPort, `UNIX-CONNECT:${socketInside}`], ...ports]
    .map(
      ([port, target]) =>
        `${program} TCP-LISTEN:${port},bind=127.0.0.1,fork,reuseaddr ${target} >/dev/null 2>&1 </dev/null & `,
    )
    .join("")
    .concat('exec "$@"');
};

/** As this machine has them: links into /usr, or directories. */
const rootLinks: View["root"] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
  .filter((path) => existsSync(path))
  .map((path) => ({ path, target: lstatSync(path).isSymbolicLink() ? readlinkSync(path) : null }));

/** Directories of the agent's program and of Node, and those in which the programs are found by their names. */
const programsOf = async ({ command, path }: Run): Promise<{ readable: string[]; path: string[] }> => {
  const found = await Promise.all([command, "node"].map((name) => findExecutable(name, path)));
  const files = await Promise.all(found.flatMap((each) => (each.ok ? [realpath(each.path)] : [])));
  const outside = files.filter((file) => !file.startsWith("/usr/"));
  return { readable: await Promise.all(outside.map(packageOf)), path: outside.map((file) => dirname(file)) };
};

/** The directory of the npm package around a file, the prefix around a `bin`, else the file's own. */
const packageOf = async (file: string): Promise<string> => {
  for (let at = dirname(file); at !== "/"; at = dirname(at))
    if ((await stat(join(at, "package.json")).catch(() => null)) !== null) return at;
  return dirname(file).endsWith("/bin") ? dirname(dirname(file)) : dirname(file);
};

/** Runs a program with all that a run gets. @throws Error with a sentence for the operator */
const probe = async (sandbox: Sandbox): Promise<void> => {
  const directory = await mkdtemp(join(tmpdir(), "svc-probe-"));
  const path = "/usr/bin:/bin";
  try {
    await using entered = await sandbox.enter({
      command: "true",
      path,
      home: "/home/agent",
      cwd: directory,
      writable: [],
      readable: [],
      routes: [],
      allowed: {
        hosts: [],
        openNetwork: false,
        read: [],
        write: [],
        temporaryBytes: 1024 * 1024,
        memoryBytes: null,
        processes: null,
      },
      onDenied: () => undefined,
    });
    const marker = { name: "SERVICE_PROBE", value: randomUUID() };
    const box = entered?.box ?? null;
    const started = await supervise({
      command: "true",
      args: [],
      cwd: directory,
      env: { PATH: path },
      marker,
      box,
    });
    if (!started.ok) throw new Error(started.message);
    let stderr = "";
    started.process.stdout.resume();
    started.process.stderr.on("data", (piece: Buffer) => (stderr += piece.toString()));
    started.process.stdin.end();
    const { exitCode } = await started.process.ended;
    if (exitCode !== 0) throw new Error(explain({ ...(await machineFacts()), stderr }));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
};
