import { ServiceError } from "../contract/errors.ts";
import type { Refs } from "./clone.ts";
import {
  gitDirVariables,
  runGit,
  runGitOrNull,
  serverOptions,
  withNetwork,
  type GitContext,
} from "./git-context.ts";
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
 * The commit of the remote's branch or else tag `baseRef`. Empty: of SERVICE_BASE_REF or else of the remote's default
 * branch.
 * @throws RepoError `worktree_failed` that names the existing branches
 */
export const resolveBase = async (context: GitContext, request: BaseRequest): Promise<Base> => {
  const { repo, refs } = request;
  const preferred = request.baseRef || context.settings.baseRef;
  const baseRef =
    preferred === "HEAD" && request.baseRef === ""
      ? ((await defaultBranch(context, request)) ?? "main")
      : preferred;
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
  const message = `The repository ${repo.url} has no branch or tag "${baseRef}". It has: ${known.join(", ")}${more}.\nWhat to do: Name one of them as the base.`;
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
): Promise<string | null> => (await askHead(context, { url: repo.url, signal })).branch;

/**
 * The base of a job at this URL that names none, as the remote says now: SERVICE_BASE_REF where it has that, else its
 * default branch; empty: it did not say within 5 s, or has no commit. `warning`: its default branch is another one.
 */
export const baseLeftOut = async (
  context: GitContext,
  url: string,
): Promise<{ baseRef: string; warning: string | null }> => {
  const { baseRef } = context.settings;
  const asked = { url, also: baseRef, signal: AbortSignal.timeout(longestAskMs) };
  const head = await askHead(context, asked).catch(() => ({ branch: null, hasAlso: false }));
  if (baseRef === "HEAD" || !head.hasAlso) return { baseRef: head.branch ?? "", warning: null };
  if (head.branch === null || head.branch === baseRef) return { baseRef, warning: null };
  const warning = `The base is ${baseRef}, but the remote's default branch is ${head.branch}: give base_ref if you mean that one, or set SERVICE_BASE_REF=HEAD`;
  return { baseRef, warning };
};

const longestAskMs = 5000;

type Ask = { url: string; also?: string; signal: AbortSignal };

/** The branch that the remote's HEAD names, and whether the remote has the branch or tag `also`. */
const askHead = async (
  context: GitContext,
  { url, also, signal }: Ask,
): Promise<{ branch: string | null; hasAlso: boolean }> => {
  const others = also === undefined ? [] : [`refs/heads/${also}`, `refs/tags/${also}`];
  const args = ["ls-remote", "--quiet", "--symref", ...serverOptions(url, "upload-pack"), "--", url];
  const { stdout } = await withNetwork(context, { url, signal }, (access) =>
    runGit(context, [...args, "HEAD", ...others], { ...access, signal }),
  );
  const hasAlso = stdout.split("\n").some((line) => others.includes(line.split("\t")[1] ?? ""));
  return { branch: /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(stdout)?.[1] ?? null, hasAlso };
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
