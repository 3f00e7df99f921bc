import { GitError } from "../lib/git.ts";
import { asRepoError } from "./failure.ts";
import { hasGh } from "./gh.ts";
import { createGithub, type GitHost } from "./github.ts";
import { farEnd, networkAccess } from "./network.ts";
import { RepoError, type PullRequest } from "./repos.ts";
import { runGit, type GitContext } from "./git-context.ts";
import { onGitHost } from "./url.ts";

/** See the port. */
export const openPullRequest = async (
  context: GitContext,
  request: PullRequest,
): Promise<{ url: string | null; reason: string | null }> => {
  const { worktree, signal } = request;
  const host = await gitHostOf(context, worktree.repoUrl, signal);
  if ("missing" in host) {
    return {
      url: null,
      reason: `The branch ${worktree.branch} was pushed, but no pull request was opened: ${host.missing}`,
    };
  }
  return host.openPullRequest(request);
};

type Creation = { url: string; private: boolean; signal: AbortSignal };

/** See the port. Only the server's own word that there is no such repository leads to one being made. */
export const createMissing = async (context: GitContext, request: Creation): Promise<string | null> => {
  const { url, signal } = request;
  try {
    if (await isThere(context, url, signal)) return null;
    const host = await gitHostOf(context, url, signal);
    if (!("missing" in host)) return await createUnlessThere(context, host, request);
    throw new RepoError(
      "clone_failed",
      `The repository ${url} does not exist and could not be made: ${host.missing}`,
    );
  } catch (error) {
    throw asRepoError(error, { reason: "clone_failed", what: `look for ${url}`, signal });
  }
};

/** Of two jobs that find a repository missing, one comes second. */
const createUnlessThere = async (
  context: GitContext,
  host: GitHost,
  request: Creation,
): Promise<string | null> => {
  try {
    return await host.createRepository(request);
  } catch (error) {
    request.signal.throwIfAborted();
    if (await isThere(context, request.url, request.signal)) return null;
    throw error;
  }
};

const isThere = async (context: GitContext, url: string, signal: AbortSignal): Promise<boolean> => {
  try {
    await runGit(context, ["ls-remote", "--quiet", ...farEnd(url, "upload-pack"), "--", url, "HEAD"], {
      ...(await networkAccess(context, url, signal)),
      signal,
    });
    return true;
  } catch (error) {
    const missing = /repository '.*' not found|Repository not found|does not appear to be a git repository/i;
    if (error instanceof GitError && missing.test(error.said)) return false;
    throw error;
  }
};

/** The adapter for the host of a URL, or why there is none. */
const gitHostOf = async (
  context: GitContext,
  url: string,
  signal: AbortSignal,
): Promise<GitHost | { missing: string }> => {
  const { gitHost } = context.settings;
  const repo = onGitHost(url, gitHost);
  if (repo === null) return { missing: `the repository is not on the git host ${gitHost} (GIT_HOST).` };
  const token = await context.tokens.current(signal).catch((error: unknown) => {
    signal.throwIfAborted();
    return error instanceof Error ? error : new Error(String(error));
  });
  if (token instanceof Error) return { missing: `${token.message}.` };
  if (token === null) return { missing: `the service has no token for ${gitHost}; set GIT_HOST_TOKEN.` };
  if (!(await hasGh(context))) return { missing: "the program gh is not installed." };
  return createGithub(context, { repo, token });
};
