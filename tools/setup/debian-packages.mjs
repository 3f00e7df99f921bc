import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { SetupError } from "./setup-error.mjs";

/** Programs that do not come from npm, and what needs them. */
const programs = [
  { command: "git", package: "git", for: ["demo", "test"], why: "clones, worktrees and pushes" },
  {
    command: "gh",
    package: "gh",
    for: ["test"],
    why: "pull requests are opened by the real gh against a stand-in of the git host",
  },
  {
    command: "git-lfs",
    package: "git-lfs",
    for: ["test"],
    why: "its filters must be there for a test to show that a checkout does not run them",
  },
];

/**
 * Installs the missing programs of this purpose from Debian's archive, when we may.
 *
 * @param {"demo" | "test"} purpose
 * @param {(line: string) => void} say
 */
export const ensurePrograms = (purpose, say) => {
  const missing = programs.filter((program) => program.for.includes(purpose) && !isOnPath(program.command));
  if (missing.length === 0) return;
  const packages = missing.map((program) => program.package);
  const prefix = rootPrefix();
  if (prefix === null || !isOnPath("apt-get")) throw new SetupError(instructions(missing));
  say(`Installing ${packages.join(", ")} with apt-get (once) …`);
  const aptGet = [
    ...prefix,
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "apt-get",
    "-qq",
    "-o",
    "DPkg::Lock::Timeout=120",
  ];
  for (const args of [["update"], ["install", "--yes", "--no-install-recommends", ...packages]]) {
    const [program, ...rest] = [...aptGet, ...args];
    const { status, stdout, stderr } = spawnSync(program, rest, {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
    // A source that cannot be refreshed need not be the one that has the packages: only the install decides.
    if (status !== 0 && args[0] === "install")
      throw new SetupError(`${stdout ?? ""}${stderr ?? ""}\n${instructions(missing)}`);
  }
  const still = missing.filter((program) => !isOnPath(program.command));
  if (still.length > 0) throw new SetupError(instructions(still));
};

const instructions = (missing) =>
  [
    "These programs are needed and missing:",
    ...missing.map((program) => `  ${program.command}: ${program.why}`),
    "Install them with",
    `  sudo apt-get update && sudo apt-get install -y ${missing.map((program) => program.package).join(" ")}`,
  ].join("\n");

const isOnPath = (command) =>
  (process.env.PATH ?? "").split(delimiter).some((directory) => {
    try {
      accessSync(join(directory || ".", command), constants.X_OK);
      return true;
    } catch {
      // Not in this directory.
      return false;
    }
  });

/** What makes a command run as root without asking anybody; null: nothing does. */
const rootPrefix = () => {
  if (process.getuid?.() === 0) return [];
  return spawnSync("sudo", ["-n", "true"], { stdio: "ignore" }).status === 0 ? ["sudo", "-n"] : null;
};
