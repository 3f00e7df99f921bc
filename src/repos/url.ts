import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { ServiceError } from "../contract/errors.ts";
import { type GitContext, isLocal, runGit, unlessRefused } from "./git-context.ts";

/** Where git finds a repository of this disk: its git directory, or the file that names it; undefined: nowhere. */
const gitDirAt = (url: string): string | undefined => {
  if (!isLocal(url)) return undefined;
  // git decodes a file:// URL.
  const decode = (coded: string): string => Buffer.from(coded.replaceAll("%", ""), "hex").toString();
  const path = url.startsWith("/") ? url : url.slice(7).replaceAll(/(?:%[0-9a-f]{2})+/gi, decode);
  const found = ["/.git", "/HEAD", ".git/.git", ".git/HEAD"].find((end) => existsSync(path + end));
  return found === undefined ? undefined : path + found.replace("/HEAD", "");
};

/** Asks git about a local repository without fetching. Returns null when git refuses, or there is no repository. */
export const askLocal = async (context: GitContext, url: string, args: readonly string[]) => {
  const gitDir = gitDirAt(url);
  if (gitDir === undefined) return null;
  const variables = { GIT_DIR: gitDir, GIT_ALLOW_PROTOCOL: "none", GIT_NO_LAZY_FETCH: "1" };
  return (await unlessRefused(runGit(context, null, args, { variables }), () => null))?.stdout ?? null;
};

/** Refuses a local path or `file://` URL from which no job can be fetched. @throws ServiceError `invalid_repo_url` */
export const checkLocalRepository = async (context: GitContext, url: string): Promise<void> => {
  const fault = isLocal(url) ? await unfit(context, url) : null;
  if (fault !== null) throw new ServiceError("invalid_repo_url", fault);
};

/** Why no job can be fetched from the repository; null: nothing is known. */
const unfit = async (context: GitContext, url: string): Promise<string | null> => {
  if (gitDirAt(url) === undefined)
    return `There is no git repository at ${url}; give the path of one, or an https or ssh URL`;
  // A submission waits no longer: a fetch tells the same later.
  const quick = { ...context, settings: { ...context.settings, gitTimeout: 10 } };
  const ask = (...args: string[]) => askLocal(quick, url, args).catch(() => "");
  const facts = "is-shallow-repository show-object-format path-format=absolute git-common-dir".split(" ");
  const said = (await ask("rev-parse", ...facts.map((fact) => `--${fact}`))) ?? "";
  const [isShallow, ids, common = ""] = said.split("\n");
  if (isShallow === "true") return shallowRepository(url);
  if (ids === "sha256") return otherFormat(url);
  const packs = await readdir(join(common, "objects/pack")).catch(() => []);
  if (!packs.some((name) => name.endsWith(".promisor"))) return null;
  // It ends at the first object that is missing, which is soon.
  const whole = await ask("rev-list", "--objects", "--in-commit-order", "--all", "--quiet");
  return whole === null ? partialRepository(url) : null;
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
