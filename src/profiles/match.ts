import type { Definition } from "./definition.ts";
import { globMatches } from "./glob.ts";
import { taskPattern } from "./task-pattern.ts";

/** Whether a task belongs to a profile by its `match` rules. */
export type Matcher = (request: { task: string; repoUrl: string }) => boolean;

export const matcher = (match: Definition["match"]): Matcher => {
  const tasks = (match?.task ?? []).map(taskPattern);
  const globs = (match?.repo ?? []).map(repositoryName);
  return ({ task, repoUrl }) => {
    if (tasks.some((fits) => fits(task))) return true;
    if (globs.length === 0 || repoUrl === "") return false;
    const repository = repositoryName(repoUrl);
    return globs.some((glob) => globMatches(glob, repository));
  };
};

/**
 * `https://github.com/acme/app.git`, `ssh://git@github.com/acme/app` and `git@github.com:acme/app` are all
 * `github.com/acme/app`: one glob fits however a repository is written.
 */
const repositoryName = (url: string): string => {
  const short = /^[^/@]+@([^/:]+):(.*)$/.exec(url);
  const name = short === null ? url.replace(/^[a-z+]+:\/\/([^/@]*@)?/i, "") : `${short[1]}/${short[2]}`;
  return name.replace(/\/+$/, "").replace(/\.git$/, "");
};
