import { runCommand } from "../lib/command.ts";
import type { GitContext } from "./git-context.ts";

/** What `find` prints of a directory, as bytes, one character each. A large tree would block this process. */
export const find = async ({ settings, signal }: GitContext, cwd: string, args: readonly string[]) => {
  const how = { env: { LC_ALL: "C" }, encoding: "latin1", timeoutSeconds: settings.gitTimeout } as const;
  return (await runCommand({ command: "/usr/bin/find", args, cwd, signal, ...how })).stdout;
};

/** The directories that have a `.git` among the paths. */
export const repositoriesIn = (paths: readonly string[]): string[] =>
  paths.flatMap((path) => (path.endsWith("/.git") ? [path.slice(0, -"/.git".length)] : []));
