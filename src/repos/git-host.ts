import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { onGitHost, type HostedRepo } from "../contract/repository-url.ts";
import { runCommand } from "../lib/command.ts";
import { pickEnvironment, withoutCredentials } from "../lib/git.ts";
import { findExecutable } from "../lib/process/executable.ts";
import { createRedactor } from "../lib/redact.ts";
import { attempt } from "./failure.ts";
import { runRemote, unlessRefused, type GitContext } from "./git-context.ts";
import { callHost, HostError, mayPass, refusalOf } from "./host-call.ts";
import { askHead } from "./ref.ts";
import { RepoError, type PullRequest, type Worktree } from "./repos.ts";
import { withoutAlias } from "./ssh-alias.ts";

/** Opens or finds the pull request of a pushed branch. `reason`: why there is none, or another base. @throws RepoError */
export const openPullRequest = async (context: GitContext, request: PullRequest) => {
  const { baseRef, baseSha, branch, repoUrl } = request.worktree;
  const without = (reason: string) => ({ url: null, reason });
  const finding = `find ${repoUrl} at its git host, where ${branch} was pushed`;
  const repo = await attempt(context, "pr_failed", finding, () => gitHostOf(context, repoUrl));
  if ("missing" in repo)
    return without(`The branch ${branch} was pushed, but no pull request was opened: ${repo.missing}`);
  if (baseSha === null)
    return without(
      `The repository was empty, so the branch ${branch} is its first: there is nothing to open a pull request against.`,
    );
  const what = `open a pull request for ${branch} in ${nameOf(repo)}`;
  const openTo = (base: string) => findOrOpen(context, repo, { ...request, base });
  return attempt(context, "pr_failed", what, async () => {
    try {
      return await openTo(baseRef);
    } catch (error) {
      if (refusalOf(error)?.status !== 422) throw error;
      const { branch: usual, also } = await askHead(context, repoUrl, baseRef);
      if (also === "tag")
        return without(
          `"${baseRef}" is a tag, and a pull request needs a branch to go to. The branch ${branch} was pushed.`,
        );
      if (also === "branch" || usual === null || usual === branch) throw error;
      const gone = `The base "${baseRef}" is no longer at the remote`;
      const { url } = await openTo(usual).catch((cause: unknown) => {
        if (refusalOf(cause) === null || mayPass(cause)) throw cause;
        const why = `${gone}, and a pull request to its default branch ${usual} was refused: ${String(cause)}.`;
        const advice = "Name a branch that is there: svc continue JOB --base BRANCH --deliver.";
        throw new RepoError("pr_failed", `${why}\nWhat to do: ${advice}`, { cause });
      });
      return { url, reason: `${gone}: the pull request goes to ${usual}, its default branch.` };
    }
  });
};

/** Finds the open pull request of the branch, or opens one to `base`. People may have given theirs another base: it stays. */
const findOrOpen = (
  context: GitContext,
  repo: HostedRepo,
  { worktree: { branch }, isDraft, title, body, base }: PullRequest & { base: string },
): Promise<{ url: string; reason: string | null }> => {
  let head = `${repo.owner}:${branch}`;
  return callHost(context.signal, async () => {
    const pulls = `repos/${nameOf(repo)}/pulls`;
    const listed = await api(context, repo, `${pulls}?state=open&head=${encodeURIComponent(head)}`);
    const [open] = z.array(Pull).parse(listed);
    if (open !== undefined) {
      const undo = ["pr", "ready", String(open.number), "--undo", "--repo", `${repo.host}/${nameOf(repo)}`];
      if (isDraft && !open.draft) await gh(context, repo, undo);
      const { html_url: url, base: to } = open;
      const other = `The open pull request goes to ${to.ref}, not to ${base}: change its base there (${url}).`;
      return { url, reason: to.ref === base ? null : other };
    }
    // The host takes 256 characters of title and 65,536 of body.
    const text = { title: title.slice(0, 256), body: body.slice(0, 65_000) };
    const input = { head: branch, base, draft: isDraft, ...text };
    const made = await api(context, repo, pulls, { method: "POST", input }).catch((error: unknown) => {
      // The owner may have another name by now.
      head = /pull request already exists for (\S+)\./.exec(String(error))?.[1] ?? head;
      throw error;
    });
    return { url: Pull.parse(made).html_url, reason: null };
  });
};

const Pull = z.object({
  html_url: z.string(),
  number: z.int(),
  draft: z.boolean(),
  body: z.string().nullable(),
  base: z.object({ ref: z.string() }),
});

/** Adds a paragraph to the body of a pull request, unless it is there. @throws RepoError `pr_failed` */
export const addToBody = (
  context: GitContext,
  { worktree, url, text }: { worktree: Worktree; url: string; text: string },
): Promise<void> =>
  attempt(context, "pr_failed", `add to the body of ${url}`, async () => {
    const repo = await gitHostOf(context, worktree.repoUrl);
    const number = /\/(\d+)$/.exec(url)?.[1];
    if ("missing" in repo || number === undefined) return;
    const path = `repos/${nameOf(repo)}/pulls/${number}`;
    await callHost(context.signal, async () => {
      const { body } = Pull.parse(await api(context, repo, path));
      if (body?.includes(text)) return;
      const input = { body: `${(body ?? "").slice(0, 60_000)}\n${text}` };
      await api(context, repo, path, { method: "PATCH", input });
    });
  });

type Creation = { url: string; private: boolean };

/**
 * Creates a repository that the server itself says is missing, under the owner that the URL names: an organisation, or the
 * token's user. Resolves to a sentence about it, or null. @throws RepoError `clone_failed`
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
    const input = { name: repo.name, private: isPrivate };
    const create = async () => {
      await api(context, null, await creationPath(context, repo), { method: "POST", input });
      return `The ${isPrivate ? "private" : "public"} repository ${nameOf(repo)} was made on ${repo.host}.`;
    };
    // An earlier try may have created it, or another job meanwhile.
    const createUnlessThere = () =>
      create().catch(async (error: unknown) => {
        context.signal.throwIfAborted();
        if (await exists(context, url)) return null;
        throw error;
      });
    return attempt(context, "clone_failed", what, () => callHost(context.signal, createUnlessThere));
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
  const ask = async (path: string) => Owner.parse(await api(context, null, path));
  if ((await ask(`users/${owner}`)).type === "Organization") return `orgs/${owner}/repos`;
  const { login } = await ask("user");
  if (login.toLowerCase() === owner.toLowerCase()) return "user/repos";
  throw new Error(
    `the token belongs to ${login}. Use a URL under that user or under an organisation, or set a token of ${owner}.`,
  );
};

/** `missing`: why the host cannot be used for this URL. */
const gitHostOf = async (context: GitContext, url: string, { mayBeMissing = false } = {}) => {
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
    if (mayPass(error)) throw error;
    return { missing: `${error instanceof Error ? error.message : String(error)}.` };
  }
  const program = await findExecutable("gh", context.env["PATH"] ?? "");
  return program.ok ? repo : { missing: "the program gh is not installed." };
};

const nameOf = ({ owner, name }: HostedRepo): string => `${owner}/${name}`;

/** Asks the host's REST API, by gh. @throws HostError when the host refuses */
const api = async (
  context: GitContext,
  repo: HostedRepo | null,
  path: string,
  { method = "GET", input }: { method?: string; input?: object } = {},
): Promise<unknown> => {
  const args = ["api", "--include", "--method", method, path];
  const body = input === undefined ? [] : ["--input", "-"];
  return JSON.parse(answerOf(await gh(context, repo, [...args, ...body], JSON.stringify(input))).body);
};

/** Reads the host's answer from the output of `gh api --include`. `status` is 0 unless the host refused. */
export const answerOf = (output: string) => {
  const [head = "", ...body] = output.split(/\r?\n\r?\n/);
  const headers = Array.from(head.matchAll(/^([\w-]+): *(.*?)\r?$/gm), ([, name = "", value = ""]) => [
    name.toLowerCase(),
    value,
  ]);
  const status = Number(/^HTTP\/[\d.]+ ([45]\d\d)/.exec(head)?.[1] ?? 0);
  return { status, headers: Object.fromEntries(headers) as Record<string, string>, body: body.join("\n\n") };
};

/** Runs gh with the token for a repository; null: for all. One that the host refuses (it was revoked) is replaced once. */
const gh = async (context: GitContext, repo: HostedRepo | null, args: readonly string[], input?: string) => {
  const run = async (isRetry: boolean): Promise<string> => {
    const token = (await context.tokens.get(repo, context.signal)) ?? "";
    return runGh(context, args, { token, input }).catch((error: unknown) => {
      const isRefused = error instanceof HostError && error.status === 401;
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
    const { status, headers, body } = answerOf(result.stdout);
    // Only the host's answer names the field that it does not take.
    const fields = Array.from(body.matchAll(/"field": ?"(\w+)"/g), ([, name]) => `invalid field: ${name}`);
    const said = withoutCredentials(createRedactor([token])([result.stderr, ...fields].join("\n")));
    const text = result.ended === "timed_out" ? `no answer within ${timeoutSeconds} s` : said.trim();
    const why = text.replaceAll(/\s*\n\s*/g, "; ").slice(0, 1000);
    throw new HostError(why, status || Number(/\bHTTP (\d{3})\b/.exec(why)?.[1] ?? 0), headers);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
};
