import type { Definition } from "./definition.ts";
import { globMatches } from "./glob.ts";
import { taskPattern } from "./task-pattern.ts";

/** The first `match` rule of a profile that fits a task, as it stands in the profile; undefined: none. */
export type Matcher = (request: { task: string; repoUrl: string }) => string | undefined;

export const matcher = (match: Definition["match"]): Matcher => {
  const tasks = (match?.task ?? []).map((source) => ({
    rule: `match.task: ${source}`,
    fits: taskPattern(source),
  }));
  const globs = (match?.repo ?? []).map((glob) => ({
    rule: `match.repo: ${glob}`,
    glob: repositoryName(glob),
  }));
  return ({ task, repoUrl }) => {
    const byTask = tasks.find(({ fits }) => fits(task));
    if (byTask !== undefined || globs.length === 0 || repoUrl === "") return byTask?.rule;
    const repository = repositoryName(repoUrl);
    return globs.find(({ glob }) => globMatches(glob, repository))?.rule;
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
