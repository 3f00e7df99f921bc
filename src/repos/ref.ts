import { ServiceError } from "../contract/errors.ts";
import type { Refs } from "./clone.ts";
import { gitDirVariables, runGit, runGitOrNull, withNetwork, type GitContext } from "./git-context.ts";
import { RepoError, type CachedRepo } from "./repos.ts";

/**
 * Whether git accepts this as the name of a branch: the rules of `git check-ref-format --branch`, and a bound on the
 * length. Every submission checks it, so it starts no process.
 */
export const isRefName = (ref: string): boolean =>
  ref !== "" &&
  ref !== "@" &&
  ref !== "HEAD" &&
  Buffer.byteLength(ref) <= 200 &&
  ref.isWellFormed() &&
  !forbidden.test(ref) &&
  !hasControl(ref) &&
  !ref.startsWith("-") &&
  !ref.endsWith(".") &&
  ref.split("/").every((part) => part !== "" && !part.startsWith(".") && !part.endsWith(".lock"));

const forbidden = /[ ~^:?*[\\]|\.\.|@\{/;

/** Control characters of ASCII only: git accepts others. */
const hasControl = (ref: string): boolean => Buffer.from(ref).some((byte) => byte < 0x20 || byte === 0x7f);

/** @throws ServiceError `invalid_ref` */
export const checkRef = (ref: string): void => {
  // git would take it for a branch `refs/heads/refs/heads/main`.
  if (isRefName(ref) && !/^refs\/(heads|tags)\//.test(ref)) return;
  const shown = ref.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 100);
  throw new ServiceError(
    "invalid_ref",
    `"${shown}" is not a name that git takes for a branch or tag. Give one like main, release/1.2 or v3.0.`,
  );
};

type BaseRequest = { repo: CachedRepo; baseRef: string; refs: Refs; signal: AbortSignal };

/** `baseSha` null: the repository has no commit yet. */
type Base = { baseRef: string; baseSha: string | null };

/**
 * The commit of the remote's branch or else tag `baseRef`. Empty: of `main` or else of the remote's default branch.
 * @throws RepoError `worktree_failed` that names the existing branches
 */
export const resolveBase = async (context: GitContext, request: BaseRequest): Promise<Base> => {
  const { repo, refs } = request;
  const baseRef = request.baseRef || "main";
  if (!isRefName(baseRef))
    throw new RepoError("worktree_failed", `"${baseRef}" is not the name of a branch or tag.`);
  const baseSha = commitIn(refs, baseRef);
  if (baseSha !== null) return { baseRef, baseSha };
  const branches = refs.filter(({ name }) => name.startsWith(remoteBranches));
  if (branches.length === 0) return { baseRef, baseSha };
  const fallback = request.baseRef === "" ? await defaultBranch(context, request) : null;
  const tip = fallback === null ? null : commitIn(refs, fallback);
  if (fallback !== null && tip !== null) return { baseRef: fallback, baseSha: tip };
  const known = branches.slice(0, 10).map(({ name }) => name.slice(remoteBranches.length));
  const more = branches.length > 10 ? ", …" : "";
  const message = `The repository ${repo.url} has no branch or tag "${baseRef}". It has: ${known.join(", ")}${more}. Name one of them as the base.`;
  throw new RepoError("worktree_failed", message);
};

const remoteBranches = "refs/remotes/origin/";

const commitIn = (refs: Refs, baseRef: string): string | null => {
  const named = (name: string): string | undefined => refs.find((ref) => ref.name === name)?.commit;
  return named(`${remoteBranches}${baseRef}`) ?? named(`refs/tags/${baseRef}`) ?? null;
};

/** The branch that the remote's HEAD names, or null. A fetch does not report it. */
export const defaultBranch = async (
  context: GitContext,
  { repo, signal }: Pick<BaseRequest, "repo" | "signal">,
): Promise<string | null> => {
  const args = ["ls-remote", "--quiet", "--symref", "--", repo.url, "HEAD"];
  const { stdout } = await withNetwork(context, { url: repo.url, signal }, (access) =>
    runGit(context, args, { ...access, signal }),
  );
  return /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(stdout)?.[1] ?? null;
};

/** The commit that a name resolves to, or null. */
export const commitOf = async (
  context: GitContext,
  { gitDir, name, signal }: { gitDir: string; name: string; signal: AbortSignal },
): Promise<string | null> => {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${name}^{commit}`];
  const found = await runGitOrNull(context, args, { variables: gitDirVariables(gitDir), signal });
  return found?.stdout.trim() ?? null;
};

type Ancestry = { gitDir: string; ancestor: string; of: string; signal: AbortSignal };

export const isAncestor = async (
  context: GitContext,
  { gitDir, ancestor, of, signal }: Ancestry,
): Promise<boolean> => {
  const args = ["merge-base", "--is-ancestor", ancestor, of];
  return (await runGitOrNull(context, args, { variables: gitDirVariables(gitDir), signal })) !== null;
};
