import { cpSync } from "node:fs";
import { appendFile, mkdtemp, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createRepos } from "./create.ts";
import { never, plainGit, write } from "./plain-git.fixture.ts";
import type { AddWorktree, CachedRepo, Repos, Worktree } from "./repos.ts";
import type { RepoSettings, TakeLease } from "./git-context.ts";
import { usualWall } from "./wall.fixture.ts";

export type Remote = {
  /** A bare repository. */
  url: string;
  /** Commits files on a branch and pushes it. A null content deletes the file. Resolves to the commit. */
  commit: (
    files: Record<string, string | null>,
    options?: { branch?: string; force?: boolean },
  ) => Promise<string>;
  /** A clone to do other things in. */
  work: string;
};

/** A remote with one commit on `main`, or none when `files` is null. */
export const makeRemote = async (
  files: Record<string, string> | null = { "README.md": "hello\n" },
): Promise<Remote> => {
  const root = await copyOf(`remote ${JSON.stringify(files)}`, (template) => initRemote(template, files));
  return remoteIn(root.path);
};

const initRemote = async (root: string, files: Record<string, string> | null): Promise<void> => {
  const { url, work, commit } = remoteIn(root);
  await plainGit(root, "init", "--quiet", "--bare", "--initial-branch=main", url);
  await plainGit(root, "init", "--quiet", "--initial-branch=main", work);
  await appendFile(join(work, ".git/config"), "[user]\n\tname = someone\n\temail = someone@example.org\n");
  if (files !== null) await commit(files);
};

const remoteIn = (root: string): Remote => {
  const [url, work] = [join(root, "remote.git"), join(root, "work")];
  const commit: Remote["commit"] = async (changes, { branch = "main", force = false } = {}) => {
    await write(work, changes);
    await plainGit(work, "add", "--all");
    await plainGit(work, "commit", "--quiet", "--allow-empty", "--message", "a change");
    await plainGit(work, "push", "--quiet", ...(force ? ["--force"] : []), url, `HEAD:refs/heads/${branch}`);
    return plainGit(work, "rev-parse", "HEAD");
  };
  return { url, work, commit };
};

/** What git has made once for all test files of this process; each test gets a copy. */
const templates = new Map<string, Promise<string>>();

/** A copy of the directory of this name, which `make` fills when it is asked for first, and where that is. */
const copyOf = async (name: string, make: (root: string) => Promise<void>) => {
  const fresh = async (): Promise<string> => {
    const root = await realpath(await mkdtemp(join(String(process.env["TEST_TEMPLATES"]), "repos-")));
    await make(root);
    return root;
  };
  const template = templates.get(name) ?? fresh();
  templates.set(name, template);
  const from = await template;
  const path = await temporaryDirectory();
  cpSync(from, path, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
  return { path, from };
};

export type TestRepos = { repos: Repos; settings: RepoSettings; root: string };

/** Repositories on new roots. */
export const makeRepos = async (
  overrides: Partial<RepoSettings> = {},
  env: NodeJS.ProcessEnv = process.env,
  takeLease?: TakeLease,
  root?: string,
  confine = usualWall,
): Promise<TestRepos> => {
  root ??= await temporaryDirectory();
  const settings: RepoSettings = {
    host: "127.0.0.1",
    podName: "pod",
    reposRoot: join(root, "repos"),
    worktreeRoot: join(root, "worktrees"),
    worktreeSizeExclude: [],
    baseRef: "main",
    allowLocalRepos: null,
    maxRepoBytes: 1_000_000_000,
    maxRepoFiles: 100_000,
    repoLockTimeout: 30,
    gitTimeout: 60,
    gitAuthorName: "svc",
    gitAuthorEmail: "svc@localhost",
    gitSigningKey: null,
    gitHost: "github.com",
    gitHostToken: null,
    gitHostOwners: [],
    gitHostAppId: null,
    gitHostAppInstallationId: null,
    gitHostAppPrivateKeyPath: null,
    gitHostAppPrivateKey: null,
    gitHostAppPrivateKeyBase64: null,
    ...overrides,
  };
  return { repos: createRepos({ settings, env, confine, ...(takeLease && { takeLease }) }), settings, root };
};

export const fetchInto = (repos: Repos, url: string): Promise<CachedRepo> =>
  repos.fetch({ url: repos.parseUrl(url), jobId: "job", signal: never });

export const addTo = (
  repos: Repos,
  repo: CachedRepo | null,
  id: string,
  more: Partial<AddWorktree> = {},
): Promise<Worktree> =>
  repos.addWorktree({
    repo,
    worktreeId: id,
    jobId: id,
    branch: `service/${id}`,
    baseRef: "main",
    signal: never,
    ...more,
  });

/** The ref that a worktree's work was saved under; null: there was none. */
export const salvagedRef = async (
  repos: Repos,
  worktree: Worktree,
  name: string,
  signal: AbortSignal,
): Promise<string | null> => (await repos.salvage(worktree, name, signal)).ref;

/** Repositories with a remote, its cached clone and one worktree, as the service finds them at its next start. */
export const makeWorktree = async (
  files: Record<string, string> = { "README.md": "hello\n" },
  { env = process.env, confine = usualWall } = {},
): Promise<TestRepos & { remote: Remote; repo: CachedRepo; worktree: Worktree }> => {
  const made = join("made.json");
  const { path, from } = await copyOf(`worktree ${JSON.stringify(files)}`, async (template) => {
    await initRemote(template, files);
    const { repos } = await makeRepos({}, process.env, undefined, template);
    const repo = await fetchInto(repos, remoteIn(template).url);
    const worktree = await addTo(repos, repo, "one");
    await writeFile(join(template, made), JSON.stringify({ repo, worktree }));
  });
  const remote = remoteIn(path);
  const place = await makeRepos({}, env, undefined, path, confine);
  const { repos, settings } = place;
  const oldKey = repos.keyOf(repos.parseUrl(remoteIn(from).url));
  const key = repos.keyOf(repos.parseUrl(remote.url));
  await rename(join(settings.reposRoot, oldKey), join(settings.reposRoot, key));
  const renamed = async (file: string): Promise<string> => {
    const text = (await readFile(file, "utf8")).replaceAll(from, path).replaceAll(oldKey, key);
    await writeFile(file, text);
    return text;
  };
  const worktreePath = join(settings.worktreeRoot, "one");
  for (const file of [
    join(settings.reposRoot, key, "repo.git/config"),
    join(settings.worktreeRoot, ".owned/one.json"),
    join(worktreePath, ".git/objects/info/alternates"),
  ])
    await renamed(file);
  const parts = JSON.parse(await renamed(join(path, made))) as { repo: CachedRepo; worktree: Worktree };
  await rm(join(path, made));
  return { ...place, remote, ...parts };
};
