import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { runCommand } from "../lib/command.ts";
import { GitError, pickEnvironment, withoutCredentials } from "../lib/git.ts";
import { findExecutable } from "../lib/process/executable.ts";
import { createRedactor } from "../lib/redact.ts";
import { asRepoError } from "./failure.ts";
import { runGit, serverOptions, withNetwork, type GitContext } from "./git-context.ts";
import { commitOf } from "./ref.ts";
import { RepoError, type PullRequest } from "./repos.ts";
import { onGitHost, type HostedRepo } from "./url.ts";

/** See the port. */
export const openPullRequest = async (
  context: GitContext,
  request: PullRequest,
): Promise<{ url: string | null; reason: string | null }> => {
  const { worktree, signal } = request;
  const { baseRef, cacheDir, baseSha, branch } = worktree;
  const without = (reason: string) => ({ url: null, reason });
  const host = await gitHostOf(context, { url: worktree.repoUrl, mayBeMissing: false, signal });
  if ("missing" in host)
    return without(`The branch ${branch} was pushed, but no pull request was opened: ${host.missing}`);
  if (baseSha === null)
    return without(
      `The repository was empty, so the branch ${branch} is its first: there is nothing to open a pull request against.`,
    );
  const base = { gitDir: cacheDir, name: `refs/remotes/origin/${baseRef}`, signal };
  if ((await commitOf(context, base)) === null)
    return without(
      `"${baseRef}" is a tag, and a pull request needs a branch to go to. The branch ${branch} was pushed.`,
    );
  try {
    const open = await findOpen(context, host, request);
    return { url: open ?? (await createPullRequest(context, host, request)), reason: null };
  } catch (error) {
    signal.throwIfAborted();
    const what = `Could not open a pull request for ${branch} in ${nameOf(host)}`;
    throw new RepoError("pr_failed", `${what}: ${messageOf(error)}`, { cause: error });
  }
};

const OpenPullRequests = z.array(z.object({ url: z.string(), isCrossRepository: z.boolean() }));

const findOpen = async (
  context: GitContext,
  repo: HostedRepo,
  { worktree, signal }: PullRequest,
): Promise<string | null> => {
  const where = ["--repo", fullName(repo), "--head", worktree.branch, "--state", "open"];
  const args = ["pr", "list", ...where, "--json", "url,isCrossRepository"];
  const found = OpenPullRequests.parse(JSON.parse(await gh(context, args, { repo, signal })));
  // A fork may have a branch of the same name.
  return found.find((pull) => !pull.isCrossRepository)?.url ?? null;
};

const createPullRequest = async (
  context: GitContext,
  repo: HostedRepo,
  { worktree, title, body, signal }: PullRequest,
): Promise<string> => {
  const where = ["--repo", fullName(repo), "--head", worktree.branch, "--base", worktree.baseRef];
  // The host takes 256 characters of title and 65,536 of body.
  const args = ["pr", "create", ...where, "--title", title.slice(0, 256), "--body-file", "-"];
  const output = await gh(context, args, { repo, signal, input: body.slice(0, 65_000) });
  const url = /https?:\/\/\S+/.exec(output)?.[0];
  if (url === undefined)
    throw new GhError(`gh did not print the pull request's address: ${output.slice(0, 200)}`);
  return url;
};

type Creation = { url: string; private: boolean; signal: AbortSignal };

/** See the port. Creates a repository only when the server itself says that there is none. */
export const createMissing = async (context: GitContext, request: Creation): Promise<string | null> => {
  const { url, signal } = request;
  try {
    if (await exists(context, url, signal)) return null;
    const host = await gitHostOf(context, { url, mayBeMissing: true, signal });
    if ("missing" in host)
      throw new RepoError(
        "clone_failed",
        `The repository ${url} does not exist and could not be made: ${host.missing}`,
      );
    return await createRepository(context, host, request).catch(async (error: unknown) => {
      signal.throwIfAborted();
      // Another job may have created it meanwhile.
      if (await exists(context, url, signal)) return null;
      throw error;
    });
  } catch (error) {
    throw asRepoError(error, { reason: "clone_failed", what: `check for ${url}`, signal });
  }
};

const exists = async (context: GitContext, url: string, signal: AbortSignal): Promise<boolean> => {
  try {
    const args = ["ls-remote", "--quiet", ...serverOptions(url, "upload-pack"), "--", url, "HEAD"];
    await withNetwork(context, { url, mayBeMissing: true, signal }, (access) =>
      runGit(context, args, { ...access, signal }),
    );
    return true;
  } catch (error) {
    const missing = /repository '.*' not found|Repository not found|does not appear to be a git repository/i;
    if (error instanceof GitError && missing.test(error.said)) return false;
    throw error;
  }
};

/** Creates it under the owner that the URL names: an organisation, or the user that the token belongs to. */
const createRepository = async (
  context: GitContext,
  repo: HostedRepo,
  { private: isPrivate, signal }: Creation,
): Promise<string> => {
  try {
    const path = await creationPath(context, repo, signal);
    const input = JSON.stringify({ name: repo.name, private: isPrivate });
    await gh(context, ["api", "--method", "POST", path, "--input", "-"], { repo: null, signal, input });
    return `The ${isPrivate ? "private" : "public"} repository ${nameOf(repo)} was made on ${repo.host}.`;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RepoError) throw error;
    const what = `Could not make the repository ${nameOf(repo)} on ${repo.host}`;
    throw new RepoError("clone_failed", `${what}: ${messageOf(error)}`, { cause: error });
  }
};

const Owner = z.object({ login: z.string(), type: z.string() });

const creationPath = async (
  context: GitContext,
  { owner, name }: HostedRepo,
  signal: AbortSignal,
): Promise<string> => {
  const call = { repo: null, signal };
  const { type } = Owner.parse(JSON.parse(await gh(context, ["api", `users/${owner}`], call)));
  if (type === "Organization") return `orgs/${owner}/repos`;
  const self = Owner.parse(JSON.parse(await gh(context, ["api", "user"], call)));
  if (self.login.toLowerCase() === owner.toLowerCase()) return "user/repos";
  const message = `Could not make the repository ${owner}/${name}: the token belongs to ${self.login}. Use a URL under that user or under an organisation, or set a token of ${owner}.`;
  throw new RepoError("clone_failed", message);
};

/** `missing`: why the host cannot be used for this URL. */
const gitHostOf = async (
  context: GitContext,
  { url, mayBeMissing, signal }: { url: string; mayBeMissing: boolean; signal: AbortSignal },
): Promise<HostedRepo | { missing: string }> => {
  const { gitHost } = context.settings;
  const repo = onGitHost(url, gitHost);
  if (repo === null) return { missing: `the repository is not on the git host ${gitHost} (GIT_HOST).` };
  const token = await context.tokens.get(mayBeMissing ? null : repo, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    return { missing: `${messageOf(error)}.` };
  });
  if (token === null) return { missing: noToken(context, repo) };
  if (typeof token !== "string") return token;
  const program = await findExecutable("gh", context.env["PATH"] ?? "");
  return program.ok ? repo : { missing: "the program gh is not installed." };
};

const noToken = ({ settings: { gitHost, gitHostAppId } }: GitContext, repo: HostedRepo): string =>
  gitHostAppId === null
    ? `the service has no token for ${gitHost}; set GIT_HOST_TOKEN.`
    : `the app ${gitHostAppId} is not installed on ${nameOf(repo)}; install it there.`;

/** `repo`: the one that the token is for; null: all. */
type GhContext = { env: NodeJS.ProcessEnv; settings: { gitHost: string; gitTimeout: number } };

type GhCall = { repo: HostedRepo | null; signal: AbortSignal; input?: string };

/** The program gh failed; `message` is bounded and free of credentials. */
class GhError extends Error {
  override name = "GhError";
}

/** Runs gh. A token that the host refuses (it was revoked) is replaced once. */
const gh = async (context: GitContext, args: readonly string[], call: GhCall): Promise<string> => {
  const { repo, signal } = call;
  const token = (await context.tokens.get(repo, signal)) ?? "";
  try {
    return await runGh(context, args, { ...call, token });
  } catch (error) {
    const isRefused = error instanceof GhError && /HTTP 401/.test(error.message);
    if (!isRefused || !context.tokens.refused(token)) throw error;
    return runGh(context, args, { ...call, token: (await context.tokens.get(repo, signal)) ?? "" });
  }
};

/** With a home directory of its own. The token is only in the environment. */
export const runGh = async (
  context: GhContext,
  args: readonly string[],
  { token, signal, input }: GhCall & { token: string },
): Promise<string> => {
  const home = await mkdtemp(join(tmpdir(), "service-gh-"));
  const { gitTimeout } = context.settings;
  try {
    const result = await runCommand({
      command: "gh",
      args,
      cwd: home,
      env: ghEnvironment(context, { token, home }),
      timeoutSeconds: gitTimeout,
      signal,
      input,
      maxOutputBytes: 4 * 1024 * 1024,
    });
    if (result.exitCode === 0 && result.ended === "exited") return result.stdout;
    const output = withoutCredentials(createRedactor([token])(`${result.stderr}\n${result.stdout}`));
    const why = result.ended === "timed_out" ? `no answer within ${gitTimeout} s` : output.trim();
    throw new GhError(why.replaceAll(/\s*\n\s*/g, "; ").slice(0, 1000));
  } finally {
    await rm(home, { recursive: true, force: true });
  }
};

const ghEnvironment = (
  { env, settings }: GhContext,
  { token, home }: { token: string; home: string },
): Record<string, string> => ({
  ...pickEnvironment(env),
  HOME: home,
  GH_CONFIG_DIR: home,
  GH_HOST: settings.gitHost,
  ...(settings.gitHost === "github.com" ? { GH_TOKEN: token } : { GH_ENTERPRISE_TOKEN: token }),
  GH_PROMPT_DISABLED: "1",
  GH_NO_UPDATE_NOTIFIER: "1",
  NO_COLOR: "1",
  // gh asks git about its working directory, where there is no repository.
  GIT_CEILING_DIRECTORIES: home,
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
});

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const nameOf = ({ owner, name }: HostedRepo): string => `${owner}/${name}`;

const fullName = (repo: HostedRepo): string => `${repo.host}/${nameOf(repo)}`;
