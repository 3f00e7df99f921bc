import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { ServiceError } from "../contract/errors.ts";

/**
 * Refuses a local path or `file://` URL without a repository, or with a shallow one. Does not check other URLs.
 * @throws ServiceError `invalid_repo_url`
 */
export const checkLocalRepository = async (url: string): Promise<void> => {
  const path = url.replace(/^file:\/\//, "");
  // git decodes %20 and the like in a file:// URL: this path may be another one.
  if (!path.startsWith("/") || (path !== url && path.includes("%"))) return;
  const isThere = async (...files: string[]): Promise<boolean> =>
    (await Promise.all(files.map((file) => stat(file).catch(() => null)))).some((found) => found !== null);
  if (await isThere(`${path}/.git/shallow`, `${path}/shallow`, `${path}.git/shallow`))
    throw new ServiceError("invalid_repo_url", shallowRepository(url));
  if (await isThere(`${path}/.git`, `${path}/HEAD`, `${path}.git/HEAD`)) return;
  const message = `There is no git repository at ${url}; give the path of one, or an https or ssh URL`;
  throw new ServiceError("invalid_repo_url", message);
};

/** git fetches no branch of a shallow repository, and calls that a success. */
export const shallowRepository = (url: string): string =>
  `The repository ${url} is shallow: it has only a part of its history. Run in it: git fetch --unshallow`;

/**
 * First 12 hex digits of the sha256 of a URL that `parseRepoUrl` gave, without `.git`. A local path keeps its `.git`:
 * `/a/app` and `/a/app.git` may be two repositories.
 */
export const repoKey = (url: string): string => {
  const isLocal = /^(file:\/)?\//.test(url);
  const name = isLocal ? url : url.replace(/\.git$/, "").replace(/\/+$/, "");
  return createHash("sha256").update(name).digest("hex").slice(0, 12);
};
