import { constants, existsSync } from "node:fs";
import { lstat, mkdir, open, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { GitError } from "../lib/git.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import type { GitContext, RepoSettings } from "./git-context.ts";

/** The content of `config` in the service's git directories, and the agents'. Submodules that are checked out are active. */
export const canonicalConfig = (
  { gitAuthorName, gitAuthorEmail }: Pick<RepoSettings, "gitAuthorName" | "gitAuthorEmail">,
  { url, bare }: Pick<Basics, "url" | "bare">,
): string => {
  const remote =
    url === ""
      ? ""
      : `[remote "origin"]\n\turl = ${quote(url)}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n`;
  return `[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = ${bare}
\thooksPath = /dev/null
\tfsmonitor = false
\talternateRefsPrefixes = "refs/remotes/origin/ refs/tags/"
\tfilesRefLockTimeout = 1000
\tpackedRefsTimeout = 2000
[gc]
\tauto = 0
\tworktreePruneExpire = never
[maintenance]
\tauto = false
[submodule]
\tactive = .
[uploadpack]
\tallowAnySHA1InWant = true
[user]
\tname = ${quote(gitAuthorName)}
\temail = ${quote(gitAuthorEmail)}
${remote}`;
};

/** The URL of the remote in such a `config`; null: there is none. */
export const urlOfConfig = (config: string): string | null => {
  const quoted = /^\turl = "((?:[^"\\\n]|\\.)*)"$/m.exec(config)?.[1];
  return quoted?.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped)) ?? null;
};

/** `url`: of the remote; empty: it has none. `head`: the ref of a HEAD that is missing or broken. */
type Basics = { url: string; bare: boolean; head?: string };

/** Makes a git directory, without the machine's templates, or gives one that is there its configuration and a HEAD. */
export const restoreGitDirectory = async (
  { settings }: Pick<GitContext, "settings">,
  gitDir: string,
  { head = "refs/heads/main", ...basics }: Basics,
): Promise<void> => {
  await mkdir(gitDir, { recursive: true });
  for (const name of ["info", "objects/info", "objects/pack", "refs/heads"])
    await makeDirectory(gitDir, name);
  const config = canonicalConfig(settings, basics);
  const [configFile, headFile] = [join(gitDir, "config"), join(gitDir, "HEAD")];
  if ((await smallTextOf(configFile, "utf8")) !== config) await replace(configFile, config);
  if (!/^(ref: refs\/\S+|[0-9a-f]{40})\n?$/.test(await smallTextOf(headFile)))
    await replace(headFile, `ref: ${head}\n`);
};

/** Makes a directory below another one, where no agent is at work. What is in its way goes, such as an agent's link. */
export const makeDirectory = async (top: string, name: string): Promise<string> => {
  let at = top;
  for (const part of name.split("/")) {
    at = join(at, part);
    const isThere = (await lstat(at).catch(() => null))?.isDirectory();
    if (isThere === false) await rm(at);
    if (isThere !== true) await mkdir(at);
  }
  return at;
};

/** Removes from an agent's clone what could make the next git there run programs, hide files or look elsewhere. */
export const removePlanted = async (gitDir: string): Promise<void> => {
  for (const path of planted.map((name) => join(gitDir, name)))
    // There is rarely anything, and a check is cheaper than a removal.
    if ((await lstat(path).catch(() => null)) !== null) await rm(path, { recursive: true, force: true });
};

const planted = ["hooks", "config.worktree", "commondir", "info/attributes", "info/grafts"];

/** Replaces whatever is at the path, also a directory or a link. Where nothing was, it is durable only if that is asked for. */
export const replace = async (path: string, text: string, { durable = false } = {}): Promise<void> => {
  const found = await lstat(path).catch(() => null);
  if (found === null && !durable) return writeFile(path, text, { flag: "wx" });
  if (found?.isDirectory() === true) await rm(path, { recursive: true, force: true });
  await writeFileAtomic(path, text, 0o644);
};

/** Makes a git directory read the objects of lenders, and no others. Git complains of each that does not exist. */
export const borrowObjects = async (gitDir: string, lenders: readonly string[]): Promise<void> => {
  const file = join(gitDir, "objects", "info", "alternates");
  const paths = lenders.map((lender) => join(lender, "objects"));
  const text = paths.map((path) => (existsSync(path) ? `${path}\n` : "")).join("");
  if (text !== "" && (await smallTextOf(file, "utf8")) === text) return;
  await makeDirectory(gitDir, "objects/info");
  await replace(file, text);
};

/** Empty: there is no such file. */
export const textOf = (path: string, encoding: BufferEncoding = "latin1"): Promise<string> =>
  readFile(path, { encoding, flag: nonBlocking.read }).catch(() => "");

/** Empty where nothing is, or what an agent may have put there: a link, a file over 64 MiB, or no file at all. */
export const smallTextOf = async (path: string, encoding: BufferEncoding = "latin1"): Promise<string> => {
  const file = await open(path, nonBlocking.read | constants.O_NOFOLLOW).catch(() => null);
  try {
    const stats = await file?.stat();
    const isSmall = stats?.isFile() === true && stats.size <= 2 ** 26;
    return file !== null && isSmall ? await file.readFile(encoding) : "";
  } finally {
    await file?.close();
  }
};

/** Quotes a value for git's configuration. Names and URLs may contain any character. */
const quote = (value: string): string =>
  `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\0", "")}"`;

/** Runs git on a locked clone, until `lost`; twice where a killed git's files are in the way. A failure leaves nothing. */
export const withoutLeftovers = async <Value>(
  lost: AbortSignal,
  gitDir: string,
  action: () => Promise<Value>,
): Promise<Value> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await action();
    } catch (error) {
      if (lost.aborted) throw error;
      await removeLeftovers(gitDir);
      if (attempt === 2 || !(error instanceof GitError && error.said.includes("File exists"))) throw error;
    }
  }
};

/** Removes lock files of git and packs and objects that are not whole. No git may be at work in it. */
export const removeLeftovers = async (gitDir: string): Promise<void> => {
  await removeLocks(gitDir);
  await removeBelow(join(gitDir, "objects"), (name) => name.startsWith("tmp_"));
};

/** Removes what a git that was killed locked. No git may be at work in it. */
export const removeLocks = async (gitDir: string): Promise<void> => {
  const isLock = (name: string): boolean => name.endsWith(".lock");
  for (const name of await readdir(gitDir).catch(() => []))
    if (isLock(name) || name === "packed-refs.new")
      await rm(join(gitDir, name), { recursive: true, force: true });
  await removeBelow(join(gitDir, "refs"), isLock);
};

/** Follows no link: an agent may have made one. */
const removeBelow = async (directory: string, isLeft: (name: string) => boolean): Promise<void> => {
  if ((await lstat(directory).catch(() => null))?.isDirectory() !== true) return;
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if (isLeft(name)) await rm(path, { recursive: true, force: true });
    else await removeBelow(path, isLeft);
  }
};
