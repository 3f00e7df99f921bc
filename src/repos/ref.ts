import { ServiceError } from "../contract/errors.ts";
import type { Refs } from "./clone.ts";
import { runGit, runGitOrNull, runRemote, type GitContext } from "./git-context.ts";
import { RepoError } from "./repos.ts";
import { otherFormat } from "./url.ts";

/** Whether a branch may have this name: git accepts it, and it has at most 200 bytes. No process is started. */
export const isRefName = (ref: string): boolean => Buffer.byteLength(ref) <= 200 && isGitName(ref);

/** The rules of `git check-ref-format --branch`. */
export const isGitName = (ref: string): boolean =>
  ref !== "" &&
  ref !== "@" &&
  ref !== "HEAD" &&
  ref.isWellFormed() &&
  !forbidden.test(ref) &&
  !ref.startsWith("-") &&
  !ref.endsWith(".") &&
  ref.split("/").every((part) => part !== "" && !part.startsWith(".") && !part.endsWith(".lock"));

/** Control characters of ASCII only: git accepts others. */
const forbidden = /[ ~^:?*[\\]|\.\.|@\{|[^\P{Cc}\x80-\x9f]/u;

/** @throws ServiceError `invalid_ref` */
export const checkRef = (ref: string): void => {
  // git would take it for a branch `refs/heads/refs/heads/main`.
  if (isRefName(ref) && !/^refs\/(heads|tags)\//.test(ref)) return;
  const shown = ref.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 100);
  const message = `"${shown}" is not a name that git takes for a branch or tag. Give one like main, release/1.2 or v3.0.`;
  throw new ServiceError("invalid_ref", message);
};

/** `refs`: of the cached clone `gitDir`. `mayBeGone`: a base that the remote has no more is replaced by its default branch. */
type BaseRequest = { url: string; baseRef: string; refs: Refs; gitDir: string; mayBeGone?: boolean };

/** `baseSha` null: the repository has no commit yet. */
type Base = { baseRef: string; baseSha: string | null };

/** The commit of a branch or else tag; empty: of SERVICE_BASE_REF or the default branch. @throws RepoError with the branches */
export const resolveBase = async (context: GitContext, request: BaseRequest): Promise<Base> => {
  const { url, refs, gitDir } = request;
  const commitIn = async (name: string): Promise<string | null> => {
    const tag = refs.get(`refs/tags/${name}`);
    const branch = refs.get(`${remoteBranches}${name}`) ?? null;
    if (branch !== null || tag === undefined) return branch;
    const peel = ["rev-parse", "--verify", "--end-of-options", `${tag}^{commit}`];
    return (await runGit(context, gitDir, peel)).stdout.trim();
  };
  const { baseRef: usual } = context.settings;
  const defaultBranch = async (): Promise<string | null> => (await askHead(context, url)).branch;
  const baseRef = request.baseRef || (usual === "HEAD" ? ((await defaultBranch()) ?? "main") : usual);
  if (!isRefName(baseRef))
    throw new RepoError("worktree_failed", `"${baseRef}" is not the name of a branch or tag.`);
  const branches = [...refs.keys()].filter((name) => name.startsWith(remoteBranches));
  const baseSha = await commitIn(baseRef);
  if (baseSha !== null || branches.length === 0) return { baseRef, baseSha };
  const fallback = request.baseRef === "" || request.mayBeGone ? await defaultBranch() : null;
  const tip = fallback === null ? null : await commitIn(fallback);
  if (fallback !== null && tip !== null) return { baseRef: fallback, baseSha: tip };
  const known = branches.slice(0, 10).map((name) => name.slice(remoteBranches.length));
  const more = branches.length > 10 ? ", …" : "";
  const message = `The repository ${url} has no branch or tag "${baseRef}". It has: ${known.join(", ")}${more}.\nWhat to do: Name one of them as the base.`;
  throw new RepoError("worktree_failed", message);
};

export const remoteBranches = "refs/remotes/origin/";

/**
 * The base of a job at this URL that names none, as the remote says now, 5 s at most: SERVICE_BASE_REF where it has that,
 * else its default branch; empty: it did not say, or has no commit. `warning`: its default branch is another one.
 */
export const baseLeftOut = async (context: GitContext, url: string) => {
  const { baseRef } = context.settings;
  const asking = { ...context, signal: AbortSignal.timeout(longestAskMs) };
  const head = await askHead(asking, url, baseRef).catch(() => null);
  if (head === null) return { baseRef: "", warning: null };
  if (head.isOther) throw new ServiceError("invalid_repo_url", otherFormat(url));
  if (baseRef === "HEAD" || head.also === null) return { baseRef: head.branch ?? "", warning: null };
  if (head.branch === null || head.branch === baseRef) return { baseRef, warning: null };
  const warning = `The base is ${baseRef}, but the remote's default branch is ${head.branch}: give base_ref if you mean that one, or set SERVICE_BASE_REF=HEAD`;
  return { baseRef, warning };
};

const longestAskMs = 5000;

/**
 * The branch that the remote's HEAD names, which no fetch reports, what the remote has under the name `also` (null: nothing),
 * and whether its ids are not SHA-1.
 */
export const askHead = async (
  context: GitContext,
  url: string,
  also = "HEAD",
): Promise<{ branch: string | null; also: "branch" | "tag" | null; isOther: boolean }> => {
  const others = [`refs/heads/${also}`, `refs/tags/${also}`];
  const command = ["ls-remote", "--quiet", "--symref"] as const;
  const { stdout } = await runRemote(context, url, { command, refs: ["HEAD", ...others] });
  const names = stdout.split("\n").map((line) => line.split("\t")[1] ?? "");
  const [isBranch, isTag] = others.map((name) => names.includes(name));
  const branch = /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(stdout)?.[1] ?? null;
  const isOther = /^[0-9a-f]{64}\t/m.test(stdout);
  return { branch, also: isBranch ? "branch" : isTag ? "tag" : null, isOther };
};

export const isAncestor = async (
  context: GitContext,
  gitDir: string,
  { ancestor, of }: { ancestor: string; of: string },
): Promise<boolean> =>
  (await runGitOrNull(context, gitDir, ["merge-base", "--is-ancestor", ancestor, of])) !== null;
