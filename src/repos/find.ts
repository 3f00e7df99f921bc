import { runCommand } from "../lib/command.ts";
import type { GitContext } from "./git-context.ts";
import { RepoError } from "./repos.ts";

/** Runs `find` in a directory and returns its output, a character for each byte. @throws RepoError when it is cut short */
export const find = async ({ settings, signal }: GitContext, cwd: string, args: readonly string[]) => {
  const how = { env: { LC_ALL: "C" }, encoding: "latin1", timeoutSeconds: settings.gitTimeout } as const;
  const { stdout, ended } = await runCommand({ command: "/usr/bin/find", args, cwd, signal, ...how });
  if (ended === "exited") return stdout;
  throw new RepoError("worktree_failed", `The files of ${cwd} are too many to look through (find ${ended})`);
};

/** The directories that have a `.git` among the paths. */
export const repositoriesIn = (paths: readonly string[]): string[] =>
  paths.flatMap((path) => (path.endsWith("/.git") ? [path.slice(0, -"/.git".length)] : []));
