import { lstat } from "node:fs/promises";
import { runCommand, type CommandResult } from "../lib/command.ts";
import { openTree } from "./open-up.ts";

/**
 * Removes a tree without following links, also where an agent took away the right to write. By a program of its own: a
 * large tree would keep this process from everything else for seconds, and Node cannot name what lies deeper than a path
 * may be long (4,096 bytes).
 */
export const removeTree = async (path: string): Promise<void> => {
  if ((await lstat(path).catch(() => null)) === null) return;
  if ((await remove(path)).exitCode === 0) return;
  await openTree(path);
  const { exitCode, stderr } = await remove(path);
  if (exitCode !== 0) throw new Error(`${path} could not be removed: ${stderr.slice(0, 1000)}`);
};

const remove = (path: string): Promise<CommandResult> =>
  runCommand({
    command: "/bin/rm",
    args: ["-rf", "--", path],
    cwd: "/",
    env: { LC_ALL: "C" },
    timeoutSeconds: 3600,
    signal: new AbortController().signal,
  });
