import { z } from "zod";
import { commitOf } from "./base.ts";
import { gh, GhError, type GhCall } from "./gh.ts";
import { RepoError, type PullRequest } from "./repos.ts";
import type { GitContext } from "./git-context.ts";
import type { HostedRepo } from "./url.ts";

/** PORT. A server that knows pull requests and can make repositories. */
export type GitHost = {
  /** @throws RepoError `pr_failed` */
  openPullRequest: (request: PullRequest) => Promise<{ url: string | null; reason: string | null }>;
  /**
   * Makes the repository of this URL, which is known to be missing. Resolves to a sentence about it.
   * @throws RepoError `clone_failed`
   */
  createRepository: (request: { url: string; private: boolean; signal: AbortSignal }) => Promise<string>;
};

/** The git host adapter for GitHub, github.com and Enterprise alike, by its own CLI. */
export const createGithub = (
  context: GitContext,
  { repo, token }: { repo: HostedRepo; token: string },
): GitHost => ({
  openPullRequest: (request) => openPullRequest(context, { repo, token, request }),
  createRepository: (request) => createRepository(context, { repo, token, ...request }),
});

type Opening = { repo: HostedRepo; token: string; request: PullRequest };

const openPullRequest: (
  context: GitContext,
  opening: Opening,
) => ReturnType<GitHost["openPullRequest"]> = async (context, opening) => {
  const { worktree, signal } = opening.request;
  const { baseRef, gitDir, baseSha, branch } = worktree;
  if (baseSha === null) {
    return {
      url: null,
      reason: `The repository was empty, so the branch ${branch} is its first: there is nothing to open a pull request against.`,
    };
  }
  if ((await commitOf(context, { gitDir, name: `refs/remotes/origin/${baseRef}`, signal })) === null) {
    return {
      url: null,
      reason: `"${baseRef}" is a tag, and a pull request needs a branch to go to. The branch ${branch} was pushed.`,
    };
  }
  try {
    const open = await findOpen(context, opening);
    return { url: open ?? (await create(context, opening)), reason: null };
  } catch (error) {
    signal.throwIfAborted();
    const why = error instanceof Error ? error.message : String(error);
    throw new RepoError(
      "pr_failed",
      `Could not open a pull request for ${branch} in ${nameOf(opening.repo)}: ${why}`,
      { cause: error },
    );
  }
};

const OpenPullRequests = z.array(z.object({ url: z.string(), isCrossRepository: z.boolean() }));

const findOpen = async (context: GitContext, { repo, token, request }: Opening): Promise<string | null> => {
  const { worktree, signal } = request;
  const args = [
    "pr",
    "list",
    "--repo",
    fullName(repo),
    "--head",
    worktree.branch,
    "--state",
    "open",
    "--json",
    "url,isCrossRepository",
  ];
  const found = OpenPullRequests.parse(JSON.parse(await gh(context, args, { token, signal })));
  // A fork may have a branch of the same name.
  return found.find((pull) => !pull.isCrossRepository)?.url ?? null;
};

const create = async (context: GitContext, { repo, token, request }: Opening): Promise<string> => {
  const { worktree, title, body, signal } = request;
  const args = [
    "pr",
    "create",
    "--repo",
    fullName(repo),
    "--head",
    worktree.branch,
    "--base",
    worktree.baseRef,
  ];
  // The host's own limits.
  args.push("--title", title.slice(0, 256), "--body-file", "-");
  const output = await gh(context, args, { token, signal, input: body.slice(0, 65_000) });
  const url = /https?:\/\/\S+/.exec(output)?.[0];
  if (url === undefined) throw new GhError(`gh did not say where it is: ${output.slice(0, 200)}`);
  return url;
};

type Creation = { repo: HostedRepo; token: string; private: boolean; signal: AbortSignal };

/** Under the owner that the URL names: an organisation, or the very user that the token belongs to. */
const createRepository = async (
  context: GitContext,
  { repo, token, private: isPrivate, signal }: Creation,
): Promise<string> => {
  const call: GhCall = { token, signal };
  try {
    const path = await creationPath(context, repo, call);
    const body = JSON.stringify({ name: repo.name, private: isPrivate });
    await gh(context, ["api", "--method", "POST", path, "--input", "-"], { ...call, input: body });
    return `The ${isPrivate ? "private" : "public"} repository ${nameOf(repo)} was made on ${repo.host}.`;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RepoError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new RepoError(
      "clone_failed",
      `Could not make the repository ${nameOf(repo)} on ${repo.host}: ${why}`,
      { cause: error },
    );
  }
};

const Owner = z.object({ login: z.string(), type: z.string() });

const creationPath = async (
  context: GitContext,
  { owner, name }: HostedRepo,
  call: GhCall,
): Promise<string> => {
  const { type } = Owner.parse(JSON.parse(await gh(context, ["api", `users/${owner}`], call)));
  if (type === "Organization") return `orgs/${owner}/repos`;
  const self = Owner.parse(JSON.parse(await gh(context, ["api", "user"], call)));
  if (self.login.toLowerCase() === owner.toLowerCase()) return "user/repos";
  const message = `Could not make the repository ${owner}/${name}: the token belongs to ${self.login}. Use a URL under that user or under an organisation, or set a token of ${owner}.`;
  throw new RepoError("clone_failed", message);
};

const nameOf = ({ owner, name }: HostedRepo): string => `${owner}/${name}`;

const fullName = (repo: HostedRepo): string => `${repo.host}/${nameOf(repo)}`;
