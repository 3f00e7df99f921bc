import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SetupError } from "./setup-error.mjs";

/**
 * Sees to it that the agent CLI runs; for the tests also the oldest that works. A package holds a stub that the install
 * script replaces by the program of an optional package; with npm's ignore-scripts the stub stays, so the script is run
 * here.
 *
 * @param {string} root
 * @param {string} node
 * @param {string} purpose
 */
export const ensureAgentCli = (root, node, purpose) => {
  const names = ["@anthropic-ai/claude-code", ...(purpose === "test" ? ["claude-code-oldest"] : [])];
  for (const name of names) ensureProgram(join(root, "node_modules", name), node);
};

const ensureProgram = (directory, node) => {
  const program = join(directory, "bin", "claude.exe");
  if (sizeOf(program) > stubSize) return;
  const { stdout, stderr } = spawnSync(node, ["install.cjs"], { cwd: directory, encoding: "utf8" });
  const version = askVersion(program);
  if (version.status === 0) return;
  const said = `${stdout ?? ""}${stderr ?? ""}${version.stderr ?? ""}`.trim();
  throw new SetupError(
    `${said}\n\nThe agent CLI does not run: ${program} is missing or a stub, and its install script did not mend it. ` +
      `Its program is in an optional package for ${process.platform}-${process.arch}: run \`npm ci --include=optional\`.`,
  );
};

/** The stub is a script of some hundred bytes, the program has hundreds of megabytes. */
const stubSize = 65_536;

const sizeOf = (file) => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

const askVersion = (program) => {
  const home = mkdtempSync(join(tmpdir(), "svc-setup-"));
  try {
    return spawnSync(program, ["--version"], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, HOME: home, CLAUDE_CONFIG_DIR: home },
    });
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
};
