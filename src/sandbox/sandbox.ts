import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { grantedHosts, type AllowedHost } from "../lib/allowed-hosts.ts";
import type { Wall } from "../lib/command.ts";
import { isBelow } from "../lib/is-below.ts";
import { limit, removeGroups, type Limited, type Limits } from "../lib/process/limits.ts";
import { programFiles } from "../lib/process/program-files.ts";
import { supervise, type Box } from "../lib/process/supervise.ts";
import { removeTree } from "../lib/remove-tree.ts";
import { modelHost } from "./arguments.ts";
import { writeTrust } from "./authority.ts";
import { findBwrap } from "./bwrap.ts";
import { type Configuration, publicConfiguration } from "./configuration.ts";
import { openDoor, type Door } from "./door.ts";
import { findLandlock } from "./landlock.ts";
import type { AgentSecret } from "./placeholders.ts";
import type { Route } from "./route.ts";

/** What one run may use beside its own worktree and configuration. */
export type Allowed = Limits & {
  hosts: readonly AllowedHost[];
  read: readonly string[];
  write: readonly string[];
  /** Room for temporary files, bytes. Only bubblewrap holds it. */
  temporaryBytes: number;
};

/** Absolute; `from` exists. */
type Mount = { from: string; to: string };

export type Run = {
  /** The agent's program, a path or a name on `path`. */
  command: string;
  path: string;
  home: string;
  /** The worktree. */
  cwd: string;
  /** What belongs to this run alone, besides. */
  writable: readonly string[];
  /** Its TCP ports, on which it may listen where it shares the host's. Absent: none. */
  ports?: readonly number[] | undefined;
  /** What it shares with others: objects that its clone borrows. */
  readable: readonly string[];
  /** Directories that it has at other places, to write: below its HOME. Only `bwrap` can do that. Absent: none. */
  mounts?: readonly Mount[] | undefined;
  routes: readonly Route[];
  allowed: Allowed;
  /**
   * What it has placeholders for, and may reach the hosts of: the door puts the value in their place, in requests to these hosts
   * only, into the header that is named, else `Authorization`. Absent: none.
   */
  secrets?: readonly AgentSecret[];
  /** Hosts to which only requests that read go. Absent: none. */
  readOnly?: readonly AllowedHost[];
  /**
   * What stands inside for the model's credential. Where others can reach the door, too, it answers only requests that carry
   * it: as `authorization: Bearer`, `x-api-key`, or password of the proxy. Absent: routes are not asked for there.
   */
  word?: string;
  /** Called for each refusal: `registry.example.com:443`, `GET /v1/files`. */
  onDenied: (name: string) => void;
};

export type Entered = AsyncDisposable & {
  box: Box;
  /** Where the agent asks for the model: at an origin, through a Unix socket if there is one. */
  model: { origin: string; socket: string | null };
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
  /** Puts a wall around a short program that needs no network; null without a sandbox. It is disposed of after the program. */
  confine: (use: Use) => Promise<(Wall & AsyncDisposable) | null>;
};

/** What a short program may use. All paths are absolute, without links, and exist. */
type Use = { readable: readonly string[]; writable: readonly string[]; cwd: string; limits: Limits };

/** A way to make sandboxes. */
export type Kind = {
  mode: "bwrap" | "landlock";
  /** Whether others on this machine can reach the door. */
  sharesNetwork: boolean;
  /** Whether the processes of a run are counted apart from others of the same user. */
  countsApart: boolean;
  /** What it does not hold on this kernel, as is known without a try. */
  open: readonly string[];
  /** A program of its own trials: it prints, one a line, what else it does not hold. */
  trial: readonly [command: string, ...args: string[]];
  /** A sentence for the operator on why its start failed. */
  explain: (stderr: string) => Promise<string>;
  /** `proxy`: address of the door for CLIs that want TCP. */
  wrap: (
    run: Run,
    place: Place,
  ) => Promise<Pick<Entered, "box" | "model" | "env" | "warnings"> & { proxy: string }>;
  confine: (use: Omit<Use, "limits">) => Wall;
};

/** What each kind needs for one run. Paths are absolute and without links. */
export type Place = {
  /** Of this run and the service only. */
  directory: string;
  cwd: string;
  readable: string[];
  /** With the working directory. */
  writable: string[];
  configuration: Configuration;
  /** What the operator allows of the host's own loopback. */
  loopback: { name: string; port: number }[];
  door: Door;
  limits: Limited;
};

const kinds = { bwrap: findBwrap, landlock: findLandlock };

/** Of the service whose runs they are. */
type Service = {
  /** Places that no link may lead a run to. */
  reserved: readonly string[];
  /** Tells its directories from those of another; one that was killed has left its own. */
  mark: string;
};

/**
 * The sandbox that SERVICE_AGENT_SANDBOX names. `auto`: the first that works here with all that a run gets, whatever it does not
 * hold. `warning` says what that is, or, with none, why. `problems`: what is in the way of those that come before it.
 * @throws Error with a sentence, when one that was named does not work
 */
export const createSandbox = async (
  wanted: SandboxMode | "auto",
  service: Service = { reserved: [], mark: randomUUID().slice(0, 8) },
): Promise<{ sandbox: Sandbox; warning: string | null; problems: string[] }> => {
  await removeLeft(service);
  const problems: string[] = [];
  if (wanted === "off") return { sandbox: noSandbox, warning: null, problems };
  const reasons = (): string => problems.map((problem) => `${problem}.`).join(" ");
  for (const mode of wanted === "auto" ? (["bwrap", "landlock"] as const) : [wanted])
    try {
      const kind = await kinds[mode]();
      const sandbox: Sandbox = {
        mode,
        enter: (run) => enter(kind, run, service),
        confine: (use) => confine(kind, use, service),
      };
      const open = [...kind.open, ...(await probe(kind, sandbox))].join(", ");
      const warning = `Agents run in a sandbox (${mode}) that does not hold all here: ${open}. ${reasons()}`;
      return { sandbox, warning: open === "" ? null : warning.trimEnd(), problems };
    } catch (error) {
      problems.push(`${mode}: ${error instanceof Error ? error.message : String(error)}`);
    }
  if (wanted !== "auto")
    throw new Error(`SERVICE_AGENT_SANDBOX=${reasons()} Or set it to auto, which takes what works here`);
  return { sandbox: noSandbox, warning: `Agents run without a sandbox. ${reasons()}`, problems };
};

export const noSandbox: Sandbox = { mode: "off", enter: async () => null, confine: async () => null };

const enter = async (kind: Kind, run: Run, service: Service): Promise<Entered> => {
  const { allowed, routes, onDenied, secrets = [], readOnly = [], word = randomUUID() } = run;
  await using made = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), beginning(service)));
  made.defer(() => removeTree(directory).catch(() => undefined));
  const hosts = [...allowed.hosts, ...secrets.flatMap((secret) => grantedHosts(secret.hosts, allowed.hosts))];
  const told = { routes, hosts, secrets, readOnly, onDenied, within: directory };
  const door = made.use(await openDoor({ ...told, ...(kind.sharesNetwork && { word }) }));
  const trust =
    door.certificate === null ? null : await writeTrust(await realpath(directory), door.certificate);
  const limits = made.use(await limit(allowed, kind.countsApart, basename(directory)));
  const programs = await programFiles([run.command, "node"], run.path);
  const read = await placesOf(allowed.read, service.reserved);
  const write = await placesOf(allowed.write, service.reserved);
  const cwd = await ownPlace(run.cwd);
  const [readable, writable] = [await ownPlaces(run.readable), await ownPlaces(run.writable)];
  for (const { from } of run.mounts ?? []) if ((await realpath(from)) !== from) throw linkAt(from);
  const place: Place = {
    directory,
    cwd,
    readable: [
      ...programs.readable,
      ...readable,
      ...read.paths,
      ...(trust === null ? [] : [trust.directory]),
    ],
    writable: [cwd, ...writable, ...write.paths],
    configuration: publicConfiguration(service.reserved),
    loopback: hosts.flatMap(({ name, port, local }) =>
      local && port !== null && /^(127\.0\.0\.1|localhost)$/.test(name) ? [{ name, port }] : [],
    ),
    door,
    limits,
  };
  const { box, model, env, warnings, proxy } = await kind.wrap(
    { ...run, allowed: { ...allowed, hosts } },
    place,
  );
  const path = [...programs.path, run.path].join(delimiter);
  const login = kind.sharesNetwork ? `run:${word}@` : "";
  // With the host's network, a connection to a secret's host must be told to come by the door.
  const viaDoor = kind.sharesNetwork ? secrets.flatMap((secret) => secret.hosts) : [];
  const isDirect = (name: string): boolean => !viaDoor.some((host) => host.startsWith(`${name}:`));
  const direct = ["localhost", "127.0.0.1", "::1", modelHost].filter(isDirect);
  const all = made.move();
  return {
    box: { ...box, exceeded: limits.exceeded },
    model,
    env: { ...env, ...trust?.env, PATH: path, ...proxied(`http://${login}${proxy}`, direct) },
    limits: limits.kind,
    warnings: [...warnings, ...limits.warnings, ...read.warnings, ...write.warnings],
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
};

const confine = async (kind: Kind, { limits, ...use }: Use, service: Service) => {
  const held = await limit(limits, kind.countsApart, `${beginning(service)}${randomUUID()}`);
  const { prefix, filter } = kind.confine(use);
  return {
    prefix: [...held.outside, ...prefix, ...held.inside],
    filter,
    [Symbol.asyncDispose]: () => held[Symbol.asyncDispose](),
  };
};

const beginning = ({ mark }: Service): string => `svc-box-${mark}-`;

const removeLeft = async (service: Service): Promise<void> => {
  const left = (await readdir(tmpdir())).filter((name) => name.startsWith(beginning(service)));
  await Promise.allSettled(left.map((name) => removeTree(join(tmpdir(), name))));
  await removeGroups(beginning(service));
};

/** A path that the service has made, without the links above it. @throws Error: it is a link itself, or is missing */
const ownPlace = async (path: string): Promise<string> => {
  const real = await realpath(path);
  if (real !== join(await realpath(dirname(path)), basename(path))) throw linkAt(path);
  return real;
};

/** The same of several. One that is missing is left out. */
const ownPlaces = (paths: readonly string[]): Promise<string[]> =>
  Promise.all(paths.filter((path) => existsSync(path)).map(ownPlace));

/** An agent may have put it there, to be given what it leads to. */
const linkAt = (path: string): Error =>
  new Error(`${path} is a link, or lies behind one, and a sandbox has only what the service made: remove it`);

/** Where the paths lead. An agent could have planted a link, so what is reserved is looked at afterwards. */
const placesOf = async (named: readonly string[], reserved: readonly string[]) => {
  const apart = await Promise.all(reserved.map((path) => realpath(path).catch(() => path)));
  const found = { paths: new Array<string>(), warnings: new Array<string>() };
  for (const path of named) {
    const real = await realpath(path).catch(() => null);
    const held = apart.find((other) => real !== null && (isBelow(real, other) || isBelow(other, real)));
    if (real === null)
      found.warnings.push(`The sandbox was to have ${path}, which does not exist; it was left out.`);
    else if (held === undefined) found.paths.push(real);
    else
      found.warnings.push(
        `The sandbox was to have ${path}, which leads to ${real}, and no agent may have ${held}; it was left out.`,
      );
  }
  return found;
};

/** They take the place of the operator's own, which may hold a password. */
const proxied = (proxy: string, direct: readonly string[]): Record<string, string> => {
  const names = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy, NO_PROXY: direct.join() };
  const pairs = Object.entries(names).flatMap(([name, value]) => [
    [name, value],
    [name.toLowerCase(), value],
  ]);
  // Node asks a proxy only when told to.
  return { ...Object.fromEntries(pairs), NODE_USE_ENV_PROXY: "1" };
};

/** Runs the trials with all that a run gets, and returns what is open. @throws Error with a sentence for the operator */
const probe = async (kind: Kind, sandbox: Sandbox): Promise<string[]> => {
  const [command, ...args] = kind.trial;
  const directory = await mkdtemp(join(tmpdir(), "svc-probe-"));
  const path = "/usr/bin:/bin";
  const nothing = { hosts: [], read: [], write: [], memoryBytes: null, processes: null };
  try {
    await using entered = await sandbox.enter({
      command,
      path,
      home: "/home/agent",
      cwd: directory,
      writable: [],
      readable: [],
      routes: [],
      allowed: { ...nothing, temporaryBytes: 1024 * 1024 },
      onDenied: () => undefined,
    });
    const started = await supervise({
      command,
      args,
      cwd: directory,
      env: { PATH: path },
      marker: { name: "SERVICE_PROBE", value: randomUUID() },
      box: entered?.box ?? null,
    });
    if (!started.ok) throw new Error(started.message);
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      started.process[name].on("data", (piece: Buffer) => (said[name] += piece.toString()));
    started.process.stdin.end();
    const { exitCode } = await started.process.ended;
    if (exitCode !== 0) throw new Error(await kind.explain(said.stderr));
    return said.stdout.split("\n").filter((line) => line !== "");
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
};
