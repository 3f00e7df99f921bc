import { createHash, randomUUID } from "node:crypto";
import { constants, createReadStream, createWriteStream } from "node:fs";
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  utimes,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { z } from "zod";
import { isLoopbackHost } from "../config/formats.ts";
import { addressesOf, byTheSystem, isRefusedAddress } from "../lib/addresses.ts";
import { readBounded } from "../lib/read-bounded.ts";
import { removeTree } from "../lib/remove-tree.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import { onGitHost, takesToken } from "../contract/repository-url.ts";
import { copyIndex } from "./clone.ts";
import { attempt } from "./failure.ts";
import { type GitContext, runGit, unlessRefused } from "./git-context.ts";
import { makeDirectory } from "./git-directory.ts";
import { openWorktree } from "./open-worktree.ts";
import { type Content, pointersIn } from "./lfs.ts";
import { listFiles, stageEntries } from "./git-index.ts";
import { inside, shownPath } from "./path-bytes.ts";
import { RepoError, type Worktree } from "./repos.ts";
import { indexOf, scratchOf, type Tree } from "./wall.ts";

/*
 * Git LFS without its program: that one would run the repository's `.lfsconfig`, which may name another server, and filters.
 * Content is kept beside the cached clone, where Git LFS itself looks for it in a clone that borrows from this one.
 */

/** Most objects that one request asks for. */
const batchSize = 100;

/** Longest time that a server may take to begin an answer, and with one object, ms. */
const answerWithinMs = 60_000;
const objectWithinMs = 3_600_000;

/** Longest answer about a batch, bytes. */
const maxAnswerBytes = 4_194_304;

/** Age at which what a kill left of a download is removed, ms. */
const leftoverAge = 86_400_000;

/** Gives a worktree the contents of its files in Git LFS in place of pointers, which is no change. @throws RepoError */
export const fillPointers = (context: GitContext, worktree: Worktree): Promise<void> =>
  attempt(context, "worktree_failed", `download the Git LFS files of ${worktree.repoUrl}`, async () => {
    const { agent } = await openWorktree(context, worktree);
    if (agent.head === null) return;
    await runGit(context, worktree, ["read-tree", "-i", "--reset", agent.head]);
    const found = await pointersIn(context, worktree);
    const isHere = await Promise.all(found.map((each) => holdsPointer(worktree, each)));
    const unfilled = found.filter((_, nth) => isHere[nth] === true);
    if (unfilled.length === 0) return;
    requireBounded(context, unfilled);
    await bringContents(context, worktree, unfilled);
    await fill(context, worktree, unfilled);
  });

type Pointer = { path: string; content: Content };

const holdsPointer = async ({ path: root }: Worktree, { path, content }: Pointer): Promise<boolean> => {
  const file = inside(root, path);
  const found = await lstat(file).catch(() => null);
  if (found?.isFile() !== true || found.size >= 1000) return false;
  // Not through a link: an agent may have made a directory one.
  const directory = inside(root, path.slice(0, Math.max(0, path.lastIndexOf("/"))));
  const real = await realpath(directory, { encoding: "buffer" });
  if (join(real.toString("latin1"), "/") !== join(directory.toString("latin1"), "/")) return false;
  const text = await readFile(file, { encoding: "latin1", flag: nonBlocking.read });
  return text.includes(`sha256:${content.hash}\n`);
};

const requireBounded = ({ settings: { maxRepoBytes } }: GitContext, pointers: Pointer[]): void => {
  const bytes = pointers.reduce((sum, { content }) => sum + content.size, 0);
  if (bytes <= maxRepoBytes) return;
  const most = `more than ${maxRepoBytes}; raise SERVICE_MAX_REPO_BYTES if they are to be downloaded.`;
  throw new RepoError("worktree_failed", `The files in Git LFS have ${bytes} bytes, ${most}`);
};

const placeOf = (gitDir: string, hash: string): string =>
  join(gitDir, "lfs", "objects", hash.slice(0, 2), hash.slice(2, 4), hash);

const hasContent = async (gitDir: string, { hash, size }: Content): Promise<boolean> => {
  const found = await lstat(placeOf(gitDir, hash)).catch(() => null);
  return found?.isFile() === true && found.size === size;
};

const bringContents = async (context: GitContext, worktree: Worktree, pointers: Pointer[]): Promise<void> => {
  const { cacheDir, repoUrl } = worktree;
  const wanted = new Map(pointers.map((pointer) => [pointer.content.hash, pointer]));
  for (const [hash, { content }] of wanted) if (await hasContent(cacheDir, content)) wanted.delete(hash);
  if (wanted.size === 0) return;
  await removeLeftovers(halfPlace(cacheDir));
  const missing = [...wanted.values()];
  if (/^(file:\/)?\//.test(repoUrl)) return copyContents(context, worktree, missing);
  const server = serverOf(repoUrl, context.settings.gitHost);
  for (let at = 0; at < missing.length; at += batchSize)
    await downloadBatch(context, { server, cacheDir, pointers: missing.slice(at, at + batchSize) });
};

const halfPlace = (cacheDir: string): string => join(cacheDir, "lfs", "service-half");

const removeLeftovers = async (directory: string): Promise<void> => {
  for (const name of await readdir(directory).catch(() => [])) {
    const found = await lstat(join(directory, name)).catch(() => null);
    if (found !== null && Date.now() - found.mtimeMs > leftoverAge)
      await rm(join(directory, name), { force: true });
  }
};

/** From a repository on this disk. */
const copyContents = async (context: GitContext, { repoUrl, cacheDir }: Worktree, missing: Pointer[]) => {
  const path = repoUrl.replace(/^file:\/\//, "");
  for (const { path: file, content } of missing) {
    const places = [join(path, ".git"), path, `${path}.git`];
    const has = await Promise.all(places.map((place) => hasContent(place, content)));
    const from = places.find((_, nth) => has[nth] === true);
    if (from === undefined) throw absent(file, `${repoUrl} does not have its content`);
    await keep(context, cacheDir, { path: file, content }, createReadStream(placeOf(from, content.hash)));
  }
};

/** The address of a repository's Git LFS server. @throws RepoError */
export const serverOf = (url: string, gitHost: string): string => {
  if (/^https?:/.test(url)) return `${url.replace(/\.git$/, "")}.git/info/lfs`;
  const hosted = onGitHost(url, gitHost);
  if (hosted !== null) return `https://${hosted.host}/${hosted.owner}/${hosted.name}.git/info/lfs`;
  const message = `Git LFS files of ${url} cannot be downloaded: its host is not GIT_HOST`;
  throw new RepoError("worktree_failed", message);
};

const Download = z.object({ href: z.string(), header: z.record(z.string(), z.string()).optional() });

const Answer = z.object({
  objects: z.array(
    z.object({
      oid: z.string(),
      error: z.object({ message: z.string() }).optional(),
      actions: z.object({ download: Download.optional() }).optional(),
    }),
  ),
});

const mediaType = "application/vnd.git-lfs+json";

/** Asks a server for contents and keeps them. @throws RepoError */
export const downloadBatch = async (
  context: GitContext,
  { server, cacheDir, pointers }: { server: string; cacheDir: string; pointers: Pointer[] },
): Promise<void> => {
  const credential = await authorization(context, server);
  const response = await ask(context, `${server}/objects/batch`, {
    method: "POST",
    headers: { accept: mediaType, "content-type": mediaType, ...credential },
    body: JSON.stringify({
      operation: "download",
      transfers: ["basic"],
      objects: pointers.map(({ content }) => ({ oid: content.hash, size: content.size })),
      hash_algo: "sha256",
    }),
  });
  const tooLong = `The Git LFS server ${server} answers with more than ${maxAnswerBytes} bytes`;
  const refuse = (): RepoError => new RepoError("worktree_failed", tooLong);
  const answered = await readBounded(response.body, maxAnswerBytes, refuse);
  const { objects } = Answer.parse(JSON.parse(Buffer.from(answered).toString()));
  for (const pointer of pointers) {
    const answer = objects.find(({ oid }) => oid === pointer.content.hash);
    const download = answer?.actions?.download;
    if (download === undefined)
      throw absent(pointer.path, answer?.error?.message.slice(0, 300) ?? "the server does not name it");
    await requireSafe(download.href, server);
    const sent = new Headers(download.header);
    const own = sent.has("authorization") || !isSameOrigin(download.href, server) ? {} : credential;
    const headers = { ...download.header, ...own };
    const { body } = await ask(context, download.href, { headers }, objectWithinMs);
    if (body === null) throw absent(pointer.path, "the answer is empty");
    await keep(context, cacheDir, pointer, Readable.fromWeb(body));
  }
};

/** The token, for the git host alone. */
const authorization = async ({ settings, tokens, signal }: GitContext, server: string) => {
  const { gitHost } = settings;
  if (!takesToken(server, gitHost)) return {};
  const repository = onGitHost(server.replace(/\.git\/info\/lfs$/, ""), gitHost);
  const token = await tokens.get(repository, signal);
  if (token === null) return {};
  return { authorization: `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}` };
};

const isSameOrigin = (one: string, other: string): boolean =>
  URL.parse(one)?.origin === URL.parse(other)?.origin;

/** The content may lie elsewhere, but not in clear, on this machine or at metadata; a server on loopback may name loopback. */
const requireSafe = async (href: string, server: string): Promise<void> => {
  if (isSameOrigin(href, server)) return;
  const refuse = (why: string): RepoError =>
    new RepoError("worktree_failed", `The Git LFS server ${server} names an address that ${why}`);
  const { protocol = "", hostname = "" } = URL.parse(href) ?? {};
  if (protocol !== "https:") throw refuse("is not https");
  if (isLoopbackHost(hostname) && isLoopbackHost(new URL(server).hostname)) return;
  const addresses = await addressesOf(hostname.replace(/^\[|\]$/g, ""), byTheSystem, answerWithinMs);
  if (addresses?.some((each) => isRefusedAddress(each))) throw refuse("leads to this machine or to metadata");
};

const ask = async (
  { signal }: GitContext,
  url: string,
  request: Omit<RequestInit, "headers"> & { headers: Record<string, string> },
  withinMs = answerWithinMs,
): Promise<Response> => {
  const { origin } = new URL(url);
  const timeout = AbortSignal.timeout(withinMs);
  // A redirect could take the token elsewhere.
  const asked = { ...request, redirect: "error" as const, signal: AbortSignal.any([signal, timeout]) };
  asked.headers = { ...request.headers, "accept-encoding": "identity" };
  const response = await fetch(url, asked).catch((cause: unknown) => {
    signal.throwIfAborted();
    const message = `The Git LFS server ${origin} cannot be reached; check the URL and the network, and try again`;
    throw new RepoError("worktree_failed", message, { cause, retryable: true });
  });
  if (response.ok) return response;
  const retryable = response.status >= 500 || response.status === 429;
  const message = `The Git LFS server ${origin} answers ${response.status}; check that it serves Git LFS, and the rights of the token (GIT_HOST_TOKEN)`;
  throw new RepoError("worktree_failed", message, { retryable });
};

const absent = (path: string, why: string): RepoError =>
  new RepoError("worktree_failed", `The Git LFS file ${shownPath(path)} cannot be downloaded: ${why}`);

/** Keeps a content under its name once it is whole, and is what the pointer says. */
const keep = async (
  { signal }: GitContext,
  cacheDir: string,
  { path, content: { hash, size } }: Pointer,
  source: Readable,
): Promise<void> => {
  const half = join(halfPlace(cacheDir), randomUUID());
  await mkdir(dirname(half), { recursive: true });
  const digest = createHash("sha256");
  let bytes = 0;
  const check = new Transform({
    transform: (piece: Buffer, _encoding, done) => {
      bytes += piece.length;
      digest.update(piece);
      done(bytes > size ? absent(path, "there is more of it than its pointer says") : null, piece);
    },
  });
  try {
    await pipeline(source, check, createWriteStream(half, { flags: "wx" }), { signal });
    if (digest.digest("hex") !== hash) throw absent(path, "it is not what its pointer says");
    await mkdir(dirname(placeOf(cacheDir, hash)), { recursive: true });
    await rename(half, placeOf(cacheDir, hash));
  } finally {
    await rm(half, { force: true });
  }
};

/** Puts each content in its pointer's place, whole or not at all, and tells both indexes that this is no change. */
const fill = async (context: GitContext, worktree: Worktree, pointers: Pointer[]): Promise<void> => {
  const { cacheDir, gitDir, ownDir, path: root } = worktree;
  const half = join(scratchOf(ownDir), "lfs");
  await removeTree(half);
  await mkdir(half);
  // Looks at the worktree know by it that there may be contents in place of pointers.
  await makeDirectory(gitDir, "lfs");
  const before = new Date(Date.now() - 2000);
  for (const { path, content } of pointers) {
    const file = inside(root, path);
    const { mode } = await lstat(file);
    const copy = join(half, content.hash);
    await copyFile(placeOf(cacheDir, content.hash), copy, constants.COPYFILE_FICLONE);
    await chmod(copy, mode & 0o777);
    // Git reads again what was changed in the second of its index, and has no filter then.
    await utimes(copy, before, before);
    await rename(copy, file);
  }
  await removeTree(half);
  const files = new Set(pointers.map(({ path }) => path));
  await refresh(context, worktree, { index: indexOf(ownDir), files });
  const agents = join(scratchOf(ownDir), "agents.index");
  await copyIndex(join(gitDir, "index"), agents);
  await refresh(context, worktree, { index: agents, files });
  await copyIndex(agents, join(gitDir, "index"));
};

/** The filter of Git LFS makes a pointer of each content: git finds no change. It compares only files of unknown size. */
const refresh = async (
  context: GitContext,
  tree: Tree,
  { index, files }: { index: string; files: ReadonlySet<string> },
): Promise<void> => {
  const where = { ...tree, index };
  const listed = await listFiles(context, where, "--stage");
  const entries = listed.filter((entry) => files.has(entry.slice(entry.indexOf("\t") + 1)));
  await stageEntries(context, where, entries);
  const config = [["filter.lfs.clean", clean]] as const;
  // Refused: other files are changed.
  await unlessRefused(runGit(context, where, ["update-index", "-q", "--refresh"], { config }), () => null);
};

/** What git gives it is what is in the file. */
const clean = `f() { h=$(sha256sum <"$1" | cut -c 1-64); printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%s\\nsize %s\\n' "$h" "$(stat -c %s -- "$1")"; }; f %f`;
