import { repositoryName } from "../contract/repository-url.ts";
import { savedDirOf, type Worktree } from "./repos.ts";

/*
 * A task may have several repositories. Each further one has a worktree beside the main one, `{worktree}/../{id}`, whose id
 * is that of the main one, a dash, and the repository's name: see docs/decisions/0021.
 */

/**
 * A name for each repository, in order, each another: the last part of its URL, of letters, digits, `-` and `_`.
 *
 * | URL                                    | name     |
 * |----------------------------------------|----------|
 * | https://github.com/acme/app.git        | `app`    |
 * | https://github.com/other/app           | `app-2`  |
 * | https://github.com/acme/site.js        | `site-js`|
 * | nothing of its last part can stay      | `repository` |
 */
export const repositoryNames = (urls: readonly string[]): string[] => {
  const names: string[] = [];
  for (const url of urls) {
    const [last = ""] = /[^/]*$/.exec(repositoryName(url).replace(/\.git$/, "")) ?? [];
    const name = (last.match(/\w+/g) ?? []).join("-").slice(0, 50) || "repository";
    let distinct = name;
    for (let number = 2; names.includes(distinct); number += 1) distinct = `${name}-${number}`;
    names.push(distinct);
  }
  return names;
};

export const furtherId = (worktreeId: string, name: string): string => `${worktreeId}-${name}`;

/** The worktree that a worktree lies beside, by its id; of a main one: itself. */
export const mainId = (worktreeId: string): string =>
  /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-/.exec(worktreeId)?.[1] ?? worktreeId;

/** A warning: a job names only the saved work of its own repository. */
export const furtherSaved = ({ repoUrl, cacheDir }: Worktree, ref: string): string =>
  `${saved(repoUrl)}${ref} in ${savedDirOf(cacheDir)}`;

const saved = (url: string) => `The work on ${url} that was not pushed is saved as `;

/** Whether a job's warnings tell of saved work on a further repository. */
export const wasSaved = (warnings: readonly string[], url: string): boolean =>
  warnings.some((warning) => warning.startsWith(saved(url)));
