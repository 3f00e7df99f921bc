import { lstat } from "node:fs/promises";
import { runCommand, type CommandResult } from "./command.ts";

/** Removes a tree, also read-only directories, links as links. Uses `rm`: Node would block, and stops at 4,096 bytes. */
export const removeTree = async (path: string): Promise<void> => {
  if ((await lstat(path).catch(() => null)) === null) return;
  if ((await run("rm", ["-rf", "--", path])).exitCode === 0) return;
  await openTree(path);
  const { exitCode, stderr } = await run("rm", ["-rf", "--", path]);
  if (exitCode !== 0) throw new Error(`${path} could not be removed: ${stderr.slice(0, 1000)}`);
};

/** Gives the owner read, write and search permission in the whole tree. Does not follow links. */
export const openTree = (path: string): Promise<CommandResult> => run("chmod", ["-R", "u+rwX", "--", path]);

const run = (program: "rm" | "chmod", args: string[]): Promise<CommandResult> =>
  runCommand({
    command: `/bin/${program}`,
    args,
    cwd: "/",
    env: { LC_ALL: "C" },
    timeoutSeconds: 3600,
    signal: new AbortController().signal,
  });
