import { spawnSync } from "node:child_process";
import {
  accessSync,
  constants,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SetupError } from "./setup-error.mjs";

/** Programs that do not come from npm, and what needs them. */
const programs = [
  { command: "git", package: "git", for: ["demo", "tutorial", "test"], why: "clones, worktrees and pushes" },
  {
    command: "curl",
    package: "curl",
    for: ["test"],
    why: "the examples of README are run as they stand there",
  },
  {
    command: "gh",
    package: "gh",
    for: ["tutorial", "test"],
    why: "pull requests are opened by the real gh against a stand-in of the git host",
  },
  {
    command: "git-lfs",
    package: "git-lfs",
    for: ["test"],
    why: "its filters must be there for a test to show that a checkout does not run them",
  },
  {
    command: "redis-server",
    // The package redis-server would start a server; the program itself comes with the tools, under another name.
    package: "redis-tools",
    alias: "redis-check-rdb",
    for: ["tutorial", "test"],
    why: "several instances share jobs through a real Redis",
  },
  {
    command: "postgres",
    package: "postgresql",
    // Debian has the programs of each version in a directory of their own, which is not on the PATH.
    beside: "/usr/lib/postgresql",
    for: ["test"],
    why: "telemetry and costs are kept in a real PostgreSQL",
  },
  {
    command: "tmux",
    package: "tmux",
    for: ["test"],
    why: "what svc shows is looked at on real terminals of several widths",
  },
  ...["zsh", "fish"].map((shell) => ({
    command: shell,
    package: shell,
    for: ["test"],
    why: "words are completed in a real one",
  })),
  {
    command: "bwrap",
    package: "bubblewrap",
    for: ["test"],
    why: "agents run in a sandbox",
  },
  {
    command: "socat",
    package: "socat",
    for: ["test"],
    why: "programs in the sandbox reach the hosts that are allowed",
  },
  ...[
    ["php", "php-cli php-mbstring"],
    ["fc-match", "fontconfig"],
    ["ruby", "ruby"],
    ["sqlite3", "sqlite3"],
  ].map(([command, names]) => ({
    command,
    package: names,
    for: ["test"],
    why: "tools that read their configuration in /etc must work in the sandbox as outside",
  })),
  {
    command: "ssh-keygen",
    package: "openssh-client",
    for: ["test"],
    why: "commits are signed by it",
  },
  {
    command: "mandoc",
    package: "mandoc",
    for: ["test"],
    why: "it checks the manual pages",
  },
  {
    command: "kubectl",
    package: "kubernetes-client",
    for: ["test"],
    why: "the manifests of deploy/kubernetes are rendered by it; no cluster is asked",
  },
  {
    command: "chromium-headless-shell",
    package: "chromium-headless-shell",
    for: ["test"],
    why: "pages are used as their users do, in a real browser",
  },
  {
    command: "nginx",
    package: "nginx",
    // Taken out of its package, not installed: that would start a server on this machine, now and at every boot.
    unpack: "usr/sbin/nginx",
    for: ["test"],
    why: "streams must get through a real reverse proxy",
  },
];

/** Where programs that are unpacked go: on the PATH of everything that the project starts. */
const ownPrograms = fileURLToPath(new URL("../../node_modules/.bin", import.meta.url));

/**
 * Installs the missing programs of this purpose from Debian's archive, when we may.
 *
 * @param {"demo" | "tutorial" | "install" | "test"} purpose
 * @param {(line: string) => void} say
 */
export const ensurePrograms = (purpose, say) => {
  const missing = programs.filter((program) => program.for.includes(purpose) && !isThere(program));
  if (missing.length === 0) return;
  const toInstall = missing.filter(
    ({ unpack, alias }) => unpack === undefined && (alias === undefined || !isOnPath(alias)),
  );
  const prefix = rootPrefix();
  if ((prefix === null && toInstall.length > 0) || !isOnPath("apt-get"))
    throw new SetupError(instructions(missing));
  const packages = toInstall.flatMap((program) => program.package.split(" "));
  say(`Fetching ${missing.map((program) => program.package).join(", ")} with apt-get (once) …`);
  // A source that cannot be refreshed need not be the one that has the packages: only what comes after it decides.
  if (prefix !== null) aptGet(["update"], { prefix });
  if (packages.length > 0) {
    const { status, said } = aptGet(["install", "--yes", "--no-install-recommends", ...packages], { prefix });
    if (status !== 0) throw new SetupError(`${said}\n${instructions(missing)}`);
  }
  for (const program of missing) {
    if (program.unpack !== undefined) unpackProgram(program);
    if (program.alias !== undefined) link(program);
  }
  const still = missing.filter((program) => !isThere(program));
  if (still.length > 0) throw new SetupError(instructions(still));
};

/** The program looks at the name that it is called by. */
const link = ({ command, alias }) => {
  const target = whereIs(alias);
  if (target === null) return;
  const beside = join(ownPrograms, `${command}.${process.pid}`);
  symlinkSync(target, beside);
  renameSync(beside, join(ownPrograms, command));
};

/** Needs no root: nothing is changed but `ownPrograms`. */
const unpackProgram = (program) => {
  const directory = mkdtempSync(join(tmpdir(), "svc-setup-"));
  try {
    const fetched = aptGet(["download", program.package], { cwd: directory });
    const archive = readdirSync(directory).find((name) => name.endsWith(".deb"));
    if (archive === undefined) throw new SetupError(`${fetched.said}\n${instructions([program])}`);
    const unpacked = execute("dpkg-deb", ["--extract", archive, "."], { cwd: directory });
    if (unpacked.status !== 0) throw new SetupError(`${unpacked.said}\n${instructions([program])}`);
    const place = join(ownPrograms, program.command);
    const beside = `${place}.${process.pid}`;
    copyFileSync(join(directory, program.unpack), beside);
    // The libraries it needs came with Debian's own programs; if one is missing it is better said now.
    const tried = execute(beside, ["-v"]);
    if (tried.status === 0) return renameSync(beside, place);
    rmSync(beside);
    throw new SetupError(`${tried.said}\n${instructions([program])}`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
};

const aptGet = (args, { prefix = [], cwd } = {}) => {
  const [program, ...rest] = [
    ...prefix,
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "apt-get",
    "-qq",
    "-o",
    "DPkg::Lock::Timeout=120",
    ...args,
  ];
  return execute(program, rest, { cwd });
};

const execute = (program, args, { cwd } = {}) => {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  return { status, said: `${stdout ?? ""}${stderr ?? ""}${error?.message ?? ""}` };
};

const instructions = (missing) =>
  [
    "These programs are needed and missing:",
    ...missing.map((program) => `  ${program.command}: ${program.why}`),
    "Install them with",
    `  sudo apt-get update && sudo apt-get install -y ${missing.map((program) => program.package).join(" ")}`,
  ].join("\n");

const isThere = ({ command, beside }) =>
  beside === undefined
    ? isOnPath(command)
    : existsSync(beside) &&
      readdirSync(beside).some((version) => existsSync(join(beside, version, "bin", command)));

const isOnPath = (command) => whereIs(command) !== null;

const whereIs = (command) => {
  const places = [ownPrograms, ...(process.env.PATH ?? "").split(delimiter)];
  const found = places
    .map((directory) => join(directory || ".", command))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        // Not in this directory.
        return false;
      }
    });
  return found ?? null;
};

/** What makes a command run as root without asking anybody; null: nothing does. */
const rootPrefix = () => {
  if (process.getuid?.() === 0) return [];
  return spawnSync("sudo", ["-n", "true"], { stdio: "ignore" }).status === 0 ? ["sudo", "-n"] : null;
};
