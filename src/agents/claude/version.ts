import { stat } from "node:fs/promises";
import { runCommand } from "../../lib/command.ts";
import { findExecutable } from "../../lib/process/executable.ts";

/** The first version whose questions can be put off until the session is resumed. */
export const oldestAsking = "2.1.197";

/** A home in which nothing can be made, not even by root: nothing of the user's own is read. */
const nowhere = "/dev/null";

/** What the CLI says to `--version`, as long as its file stays the same. */
const said = new Map<string, Promise<string>>();

/**
 * Whether the CLI can ask a person.
 * @param command a path, or a name that is looked up on `env.PATH`
 * @param env the whole environment of the CLI
 */
export const canAsk = async (command: string, env: Record<string, string>): Promise<boolean> => {
  const found = await findExecutable(command, env["PATH"] ?? "");
  if (!found.ok) return false;
  const { mtimeMs } = await stat(found.path);
  const key = `${found.path}\0${mtimeMs}`;
  const answer = said.get(key) ?? askVersion(found.path, env);
  said.set(key, answer);
  return isRecent(await answer);
};

const askVersion = async (path: string, env: Record<string, string>): Promise<string> => {
  const { stdout } = await runCommand({
    command: path,
    args: ["--version"],
    cwd: "/",
    env: { ...env, HOME: nowhere, CLAUDE_CONFIG_DIR: nowhere },
    timeoutSeconds: 10,
    signal: AbortSignal.timeout(10_000),
  }).catch(() => ({ stdout: "" }));
  return stdout;
};

/** `2.1.197 (Claude Code)` */
export const isRecent = (text: string): boolean => {
  const [, ...given] = /^(\d+)\.(\d+)\.(\d+)/.exec(text.trim()) ?? [];
  if (given.length === 0) return false;
  return given.join(".").localeCompare(oldestAsking, "en", { numeric: true }) >= 0;
};
