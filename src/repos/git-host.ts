import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { onGitHost, type HostedRepo } from "../contract/repository-url.ts";
import { runCommand } from "../lib/command.ts";
import { pickEnvironment, withoutCredentials } from "../lib/git.ts";
import { findExecutable } from "../lib/process/executable.ts";
import { createRedactor } from "../lib/redact.ts";
import { readRefs } from "./clone.ts";
import { attempt } from "./failure.ts";
import { runRemote, unlessRefused, type GitContext } from "./git-context.ts";
import { RepoError, type PullRequest, type Worktree } from "./repos.ts";
import { withoutAlias } from "./ssh-alias.ts";

/**
 * Opens a pull request for the pushed branch, or finds the open one. `reason`: why there is none.
 * @throws RepoError `pr_failed`
 */
export const openPullRequest = async (
  context: GitContext,
  { worktree, isDraft, title, body }: PullRequest,
): Promise<{ url: string | null; reason: string | null }> => {
  const { baseRef, cacheDir, baseSha, branch, repoUrl } = worktree;
  const without = (reason: string) => ({ url: null, reason });
  const repo = await gitHostOf(context, repoUrl);
  if ("missing" in repo)
    return without(`The branch ${branch} was pushed, but no pull request was opened: ${repo.missing}`);
  if (baseSha === null)
    return without(
      `The repository was empty, so the branch ${branch} is its first: there is nothing to open a pull request against.`,
    );
  const base = `refs/remotes/origin/${baseRef}`;
  if (!(await readRefs(cacheDir, [base])).has(base))
    return without(
      `"${baseRef}" is a tag, and a pull request needs a branch to go to. The branch ${branch} was pushed.`,
    );
  const what = `open a pull request for ${branch} in ${nameOf(repo)}`;
  return attempt(context, "pr_failed", what, async () => {
    const of = ["--repo", `${repo.host}/${nameOf(repo)}`, "--head", branch];
    const list = ["pr", "list", ...of, "--state", "open", "--json", "url,number,isCrossRepository"];
    const found = OpenPullRequests.parse(JSON.parse(await gh(context, repo, list)));
    // A fork may have a branch of the same name.
    const open = found.find((pull) => !pull.isCrossRepository);
    if (open !== undefined) {
      if (isDraft) await gh(context, repo, ["pr", "ready", String(open.number), "--undo", ...of.slice(0, 2)]);
      return { url: open.url, reason: null };
    }
    // The host takes 256 characters of title and 65,536 of body.
    const text = ["--title", title.slice(0, 256), "--body-file", "-"];
    const draft = isDraft ? ["--draft"] : [];
    const create = ["pr", "create", ...of, ...draft, "--base", baseRef, ...text];
    const output = await gh(context, repo, create, body.slice(0, 65_000));
    const url = /https?:\/\/\S+/.exec(output)?.[0];
    if (url === undefined)
      throw new Error(`gh did not print the pull request's address: ${output.slice(0, 200)}`);
    return { url, reason: null };
  });
};

const OpenPullRequests = z.array(
  z.object({ url: z.string(), number: z.int(), isCrossRepository: z.boolean() }),
);

/**
 * Adds a paragraph to the body of a pull request that `openPullRequest` gave, unless it is there.
 * @throws RepoError `pr_failed`
 */
export const addToBody = (
  context: GitContext,
  { worktree, url, text }: { worktree: Worktree; url: string; text: string },
): Promise<void> =>
  attempt(context, "pr_failed", `add to the body of ${url}`, async () => {
    const repo = await gitHostOf(context, worktree.repoUrl);
    const number = /\/(\d+)$/.exec(url)?.[1];
    if ("missing" in repo || number === undefined) return;
    const path = `repos/${nameOf(repo)}/pulls/${number}`;
    const { body } = WithBody.parse(JSON.parse(await gh(context, repo, ["api", path])));
    if (body?.includes(text)) return;
    const input = JSON.stringify({ body: `${(body ?? "").slice(0, 60_000)}\n${text}` });
    await gh(context, repo, ["api", "--method", "PATCH", path, "--input", "-"], input);
  });

const WithBody = z.object({ body: z.string().nullable() });

type Creation = { url: string; private: boolean };

/**
 * Creates the repository on the git host if the server itself says that there is none, under the owner that the URL names:
 * an organisation, or the user that the token belongs to. Resolves to a sentence about it, or null.
 * @throws RepoError `clone_failed`
 */
export const createMissing = (context: GitContext, { url, private: isPrivate }: Creation) =>
  attempt(context, "clone_failed", `check for ${url}`, async (): Promise<string | null> => {
    if (await exists(context, url)) return null;
    const repo = await gitHostOf(context, url, { mayBeMissing: true });
    if ("missing" in repo) {
      const message = `The repository ${url} does not exist and could not be made: ${repo.missing}`;
      throw new RepoError("clone_failed", message);
    }
    const what = `make the repository ${nameOf(repo)} on ${repo.host}`;
    const creating = attempt(context, "clone_failed", what, async () => {
      const path = await creationPath(context, repo);
      const input = JSON.stringify({ name: repo.name, private: isPrivate });
      await gh(context, null, ["api", "--method", "POST", path, "--input", "-"], input);
      return `The ${isPrivate ? "private" : "public"} repository ${nameOf(repo)} was made on ${repo.host}.`;
    });
    return creating.catch(async (error: unknown) => {
      context.signal.throwIfAborted();
      // Another job may have created it meanwhile.
      if (await exists(context, url)) return null;
      throw error;
    });
  });

const exists = (context: GitContext, url: string): Promise<boolean> => {
  const asked = { command: ["ls-remote", "--quiet"] as const, refs: ["HEAD"], mayBeMissing: true };
  const asking = runRemote(context, url, asked).then(() => true);
  return unlessRefused(asking, (error) => {
    if (noRepository.test(error.said)) return false;
    throw error;
  });
};

const noRepository = /repository '.*' not found|Repository not found|does not appear to be a git repository/i;

const Owner = z.object({ login: z.string(), type: z.string() });

const creationPath = async (context: GitContext, { owner }: HostedRepo): Promise<string> => {
  const ask = async (path: string) => Owner.parse(JSON.parse(await gh(context, null, ["api", path])));
  if ((await ask(`users/${owner}`)).type === "Organization") return `orgs/${owner}/repos`;
  const { login } = await ask("user");
  if (login.toLowerCase() === owner.toLowerCase()) return "user/repos";
  throw new Error(
    `the token belongs to ${login}. Use a URL under that user or under an organisation, or set a token of ${owner}.`,
  );
};

/** `missing`: why the host cannot be used for this URL. */
const gitHostOf = async (
  context: GitContext,
  url: string,
  { mayBeMissing = false } = {},
): Promise<HostedRepo | { missing: string }> => {
  const { gitHost, gitHostAppId } = context.settings;
  const repo = onGitHost(url, gitHost) ?? onGitHost(await withoutAlias(context, url), gitHost);
  if (repo === null) return { missing: `the repository is not on the git host ${gitHost} (GIT_HOST).` };
  const noToken =
    gitHostAppId === null
      ? `the service has no token for ${gitHost}; set GIT_HOST_TOKEN.`
      : `the app ${gitHostAppId} is not installed on ${nameOf(repo)}; install it there.`;
  try {
    if ((await context.tokens.get(mayBeMissing ? null : repo, context.signal)) === null)
      return { missing: noToken };
  } catch (error) {
    context.signal.throwIfAborted();
    return { missing: `${error instanceof Error ? error.message : String(error)}.` };
  }
  const program = await findExecutable("gh", context.env["PATH"] ?? "");
  return program.ok ? repo : { missing: "the program gh is not installed." };
};

const nameOf = ({ owner, name }: HostedRepo): string => `${owner}/${name}`;

/** The program gh failed; `message` is bounded and free of credentials. */
class GhError extends Error {
  override name = "GhError";
}

/**
 * Runs gh with the token for a repository; null: for all. A token that the host refuses (it was revoked) is replaced once.
 */
const gh = async (
  context: GitContext,
  repo: HostedRepo | null,
  args: readonly string[],
  input?: string,
): Promise<string> => {
  const run = async (isRetry: boolean): Promise<string> => {
    const token = (await context.tokens.get(repo, context.signal)) ?? "";
    return runGh(context, args, { token, input }).catch((error: unknown) => {
      const isRefused = error instanceof GhError && /HTTP 401/.test(error.message);
      if (isRetry || !isRefused || !context.tokens.refused(token)) throw error;
      return run(true);
    });
  };
  return run(false);
};

type GhContext = {
  env: NodeJS.ProcessEnv;
  settings: { gitHost: string; gitTimeout: number };
  signal: AbortSignal;
};

/** With a home directory of its own. The token is only in the environment. */
export const runGh = async (
  { env, settings, signal }: GhContext,
  args: readonly string[],
  { token, input }: { token: string; input?: string | undefined },
): Promise<string> => {
  const home = await mkdtemp(join(tmpdir(), "service-gh-"));
  const { gitTimeout: timeoutSeconds, gitHost } = settings;
  const variables = {
    ...pickEnvironment(env),
    HOME: home,
    GH_CONFIG_DIR: home,
    GH_HOST: gitHost,
    [gitHost === "github.com" ? "GH_TOKEN" : "GH_ENTERPRISE_TOKEN"]: token,
    GH_PROMPT_DISABLED: "1",
    GH_NO_UPDATE_NOTIFIER: "1",
    NO_COLOR: "1",
    // gh asks git about its working directory, where there is no repository.
    GIT_CEILING_DIRECTORIES: home,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
  };
  try {
    const process = { cwd: home, env: variables, timeoutSeconds, signal, input };
    const result = await runCommand({ ...process, command: "gh", args, maxOutputBytes: 4 * 1024 * 1024 });
    if (result.exitCode === 0 && result.ended === "exited") return result.stdout;
    const output = withoutCredentials(createRedactor([token])(`${result.stderr}\n${result.stdout}`));
    const why = result.ended === "timed_out" ? `no answer within ${timeoutSeconds} s` : output.trim();
    throw new GhError(why.replaceAll(/\s*\n\s*/g, "; ").slice(0, 1000));
  } finally {
    await rm(home, { recursive: true, force: true });
  }
};
