import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ServiceError } from "../contract/errors.ts";
import { type GitContext, runGit } from "./git-context.ts";

/** Refuses a local path or `file://` URL from which no job can be fetched. @throws ServiceError `invalid_repo_url` */
export const checkLocalRepository = async (context: GitContext, url: string): Promise<void> => {
  const path = url.replace(/^file:\/\//, "");
  // git decodes %20 and the like in a file:// URL: this path may be another one.
  if (!path.startsWith("/") || (path !== url && path.includes("%"))) return;
  const file = [`${path}/.git`, `${path}/HEAD`, `${path}.git/HEAD`].find((each) => existsSync(each));
  const none = `There is no git repository at ${url}; give the path of one, or an https or ssh URL`;
  const fault = file === undefined ? none : await unfit(context, url, dirname(file));
  if (fault !== null) throw new ServiceError("invalid_repo_url", fault);
};

/** Why no job can be fetched from the repository at a path; null: nothing is known. */
const unfit = async (context: GitContext, url: string, path: string): Promise<string | null> => {
  // A submission waits no longer: a fetch tells the same later.
  const quick = { ...context, settings: { ...context.settings, gitTimeout: 10 } };
  const ask = (...args: string[]): Promise<string> =>
    runGit(quick, null, ["-C", path, ...args]).then(
      ({ stdout }) => stdout,
      () => "",
    );
  const format = ["--is-shallow-repository", "--show-object-format", "--path-format=absolute"];
  const [isShallow, ids, common = ""] = (await ask("rev-parse", ...format, "--git-common-dir")).split("\n");
  if (isShallow === "true") return shallowRepository(url);
  if (ids === "sha256") return otherFormat(url);
  const packs = await readdir(join(common, "objects/pack")).catch(() => []);
  if (!packs.some((name) => name.endsWith(".promisor"))) return null;
  const missing = await ask("rev-list", "--objects", "--all", "--missing=print", "--quiet");
  return missing === "" ? null : partialRepository(url);
};

/** git fetches no branch of a shallow repository, and calls that a success. */
export const shallowRepository = (url: string): string =>
  `The repository ${url} is shallow: it has only a part of its history. Run in it: git fetch --unshallow`;

export const otherFormat = (url: string): string =>
  `The repository ${url} has SHA-256 ids, and only those with SHA-1 ids are supported. Give a copy of it that has them (git init --object-format=sha1)`;

/** What a filter left out can be had from its remote only, which git does not ask for others. */
const partialRepository = (url: string): string =>
  `The repository ${url} is a partial clone and lacks files of its history. Run in it: git fetch --refetch --no-filter, or give the URL of its remote`;

/** Takes a URL that `parseRepoUrl` gave. A local path keeps its `.git`: `/a/app` and `/a/app.git` may be two repositories. */
export const repoKey = (url: string): string => {
  const isLocal = /^(file:\/)?\//.test(url);
  const name = isLocal ? url : url.replace(/\.git$/, "").replace(/\/+$/, "");
  return createHash("sha256").update(name).digest("hex").slice(0, 12);
};
