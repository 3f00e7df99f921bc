import { lstat, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import type { RepoSettings } from "./git-context.ts";

/** The one text that the `config` of a git directory of ours may have. */
export const canonicalConfig = (
  { gitAuthorName, gitAuthorEmail }: Pick<RepoSettings, "gitAuthorName" | "gitAuthorEmail">,
  { url, bare }: { url: string | null; bare: boolean },
): string => {
  const remote =
    url === null
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
[uploadpack]
\tallowAnySHA1InWant = true
[user]
\tname = ${quote(gitAuthorName)}
\temail = ${quote(gitAuthorEmail)}
${remote}`;
};

/** The URL of the remote in such a text; null: there is none. */
export const urlOfConfig = (config: string): string | null => {
  const quoted = /^\turl = "((?:[^"\\\n]|\\.)*)"$/m.exec(config)?.[1];
  return quoted?.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped)) ?? null;
};

/** Makes an empty git directory; nothing of a template of the machine gets into it. */
export const makeGitDirectory = async (
  gitDir: string,
  { config, head }: { config: string; head: string },
): Promise<void> => {
  await mkdir(join(gitDir, "objects", "pack"), { recursive: true });
  await mkdir(join(gitDir, "refs", "heads"), { recursive: true });
  await writeFile(join(gitDir, "config"), config);
  await writeFile(join(gitDir, "HEAD"), `ref: ${head}\n`);
};

/**
 * Undoes whatever an agent, which runs as the same user, may have written into a git directory of ours to make git run
 * programs or talk to other servers for the next one who uses it. Missing basics are made again.
 */
export const restoreGitDirectory = async (
  gitDir: string,
  { config, head: branch }: { config: string; head: string },
): Promise<void> => {
  await Promise.all(planted.map((name) => removeIfThere(join(gitDir, name))));
  const found = await textOf(join(gitDir, "config"));
  if (found !== config) await replace(join(gitDir, "config"), config);
  const head = await textOf(join(gitDir, "HEAD"));
  if (head === null || !/^(ref: refs\/\S+|[0-9a-f]{40})\n?$/.test(head))
    await replace(join(gitDir, "HEAD"), `ref: ${branch}\n`);
  await mkdir(join(gitDir, "objects", "pack"), { recursive: true });
  await mkdir(join(gitDir, "refs", "heads"), { recursive: true });
};

/** Names in a git directory that steer git, or keep it from seeing files, and that we never write. */
const planted = ["hooks", "config.worktree", "commondir", "info/attributes", "info/exclude", "info/grafts"];

/** A look first: most often there is nothing, and a look is cheaper than a removal. */
const removeIfThere = async (path: string): Promise<void> => {
  const found = await lstat(path).catch(unreadable);
  // Another job's agent may put things there while we take them away.
  if (found !== null) await rm(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 });
};

/** Whatever stands at the path, a directory or a link, gives way to the file. */
const replace = async (path: string, text: string): Promise<void> => {
  const found = await lstat(path).catch(unreadable);
  if (found?.isDirectory() === true) await rm(path, { recursive: true, force: true });
  await writeFileAtomic(path, text, 0o644);
};

/** Makes a git directory read the objects of others besides its own, and of none else. */
export const borrowObjects = async (gitDir: string, lenders: readonly string[]): Promise<void> => {
  const file = join(gitDir, "objects", "info", "alternates");
  const text = lenders.map((lender) => `${join(lender, "objects")}\n`).join("");
  if ((await textOf(file)) === text) return;
  await mkdir(join(gitDir, "objects", "info"), { recursive: true });
  await replace(file, text);
};

const textOf = (path: string): Promise<string | null> =>
  readFile(path, { encoding: "utf8", flag: nonBlocking.read }).catch(unreadable);

const unreadable = (): null => null;

/** A value of git's configuration syntax; names and URLs may hold anything but must stay one value. */
const quote = (value: string): string =>
  `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\0", "")}"`;
