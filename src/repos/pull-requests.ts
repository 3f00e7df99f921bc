import { GitError } from "../lib/git.ts";
import { asRepoError } from "./failure.ts";
import { hasGh } from "./gh.ts";
import type { GitHost } from "./git-host.ts";
import { createGithub } from "./github.ts";
import { farEnd, networkAccess } from "./network.ts";
import { RepoError, type PullRequest } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { onGitHost } from "./url.ts";

/** See the port. */
export const openPullRequest = async (
  room: Room,
  request: PullRequest,
): Promise<{ url: string | null; reason: string | null }> => {
  const { worktree, signal } = request;
  const host = await gitHostOf(room, worktree.repoUrl, signal);
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
export const createMissing = async (room: Room, request: Creation): Promise<string | null> => {
  const { url, signal } = request;
  try {
    if (await isThere(room, url, signal)) return null;
    const host = await gitHostOf(room, url, signal);
    if (!("missing" in host)) return await createUnlessThere(room, host, request);
    throw new RepoError(
      "clone_failed",
      `The repository ${url} does not exist and could not be made: ${host.missing}`,
    );
  } catch (error) {
    throw asRepoError(error, { reason: "clone_failed", what: `look for ${url}`, signal });
  }
};

/** Of two jobs that find a repository missing, one comes second. */
const createUnlessThere = async (room: Room, host: GitHost, request: Creation): Promise<string | null> => {
  try {
    return await host.createRepository(request);
  } catch (error) {
    request.signal.throwIfAborted();
    if (await isThere(room, request.url, request.signal)) return null;
    throw error;
  }
};

const isThere = async (room: Room, url: string, signal: AbortSignal): Promise<boolean> => {
  try {
    await runGit(room, ["ls-remote", "--quiet", ...farEnd(url, "upload-pack"), "--", url, "HEAD"], {
      ...(await networkAccess(room, url, signal)),
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
  room: Room,
  url: string,
  signal: AbortSignal,
): Promise<GitHost | { missing: string }> => {
  const { gitHost } = room.settings;
  const repo = onGitHost(url, gitHost);
  if (repo === null) return { missing: `the repository is not on the git host ${gitHost} (GIT_HOST).` };
  const token = await room.tokens.current(signal).catch((error: unknown) => {
    signal.throwIfAborted();
    return error instanceof Error ? error : new Error(String(error));
  });
  if (token instanceof Error) return { missing: `${token.message}.` };
  if (token === null) return { missing: `the service has no token for ${gitHost}; set GIT_HOST_TOKEN.` };
  if (!(await hasGh(room))) return { missing: "the program gh is not installed." };
  return createGithub(room, { repo, token });
};
