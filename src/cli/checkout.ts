import { resolve } from "node:path";
import { parseRepoUrl, repositoryName, withoutUser } from "../contract/repository-url.ts";
import type { Connection } from "./connect.ts";
import { usageError } from "./failure.ts";
import { counted } from "../view/columns.ts";
import { oneLine } from "../view/sanitise.ts";
import { git as userGit } from "./user-git.ts";

/** What a submission takes from the git checkout around the current directory. */
type Checkout = {
  repoUrl: string;
  /** Empty: the remote's default branch. */
  baseRef: string;
  /** What was taken, and what a job does not get, in one line. */
  note: string;
};

/** Null: the current directory is in no checkout, or there is no git. */
export const findCheckout = async (
  baseRef: string | undefined,
  { isLocal, baseUrl }: Pick<Connection, "isLocal" | "baseUrl">,
): Promise<Checkout | null> => {
  const top = await topDirectory();
  if (top === null) return null;
  const remote = chooseRemote(lines(await git("remote")));
  const url = remote === null ? top : await remoteUrl(remote, top);
  if (url.startsWith("/") && !isLocal)
    throw usageError(
      `The service at ${baseUrl} is on another machine, and ${remote === null ? "this checkout has no remote" : `the remote ${remote} is a directory`}: give --repo, or --no-repo`,
    );
  const branch = await git("symbolic-ref", "--short", "--quiet", "HEAD");
  const isThere = await remoteHas(remote, branch);
  const base = baseRef ?? (isThere ? branch : "");
  const found = [
    `${remote ?? "checkout"} ${repositoryName(url)}`,
    base === "" ? withoutBase(branch) : `branch ${base}`,
  ];
  return { repoUrl: url, baseRef: base, note: oneLine(found.join(", ") + (await leftOut(remote))) };
};

/** As the checkout has it written down, where a job takes that; else what the user's `insteadOf` makes of it. */
const remoteUrl = async (remote: string, top: string): Promise<string> => {
  const [written = ""] = lines(await git("config", "--get-all", `remote.${remote}.url`));
  const address = addressOf(written, top);
  try {
    return parseRepoUrl(address, { allowLocal: true });
  } catch {
    return addressOf(await git("remote", "get-url", "--", remote), top);
  }
};

/** As last fetched; a branch that was pushed by the remote's URL is known to the remote alone. */
const remoteHas = async (remote: string | null, branch: string): Promise<boolean> => {
  if (branch === "") return false;
  const ref = remote === null ? "HEAD" : `refs/remotes/${remote}/${branch}`;
  if ((await git("rev-parse", "--verify", "--quiet", ref)) !== "") return true;
  return remote !== null && (await git("ls-remote", "--", remote, `refs/heads/${branch}`)) !== "";
};

const withoutBase = (branch: string): string =>
  `${branch === "" ? "no branch is checked out" : `branch ${branch} is not there`}: the job begins at the default branch`;

/** @throws CliError when git refuses the checkout */
const topDirectory = async (): Promise<string | null> => {
  const { ok, stdout, said } = await runGit("rev-parse", "--show-toplevel");
  if (ok) return stdout;
  // Other refusals, such as that of another user's checkout, would otherwise end in an empty directory.
  if (/not a git repository|must be run in a work tree|ENOENT/.test(said)) return null;
  throw usageError(`git does not read this checkout (${oneLine(said)}): give --repo, or --no-repo`);
};

const chooseRemote = (remotes: string[]): string | null => {
  if (remotes.includes("origin")) return "origin";
  if (remotes.length < 2) return remotes[0] ?? null;
  throw usageError(`This checkout has several remotes, and none is origin: give --repo with the URL of one`);
};

const addressOf = (url: string, top: string): string => {
  if (/^\.{0,2}\//.test(url)) return resolve(top, url);
  return /^https?:/i.test(url) ? withoutUser(url) : url;
};

const leftOut = async (remote: string | null): Promise<string> => {
  const changed = lines(await git("status", "--porcelain")).length;
  const unpushed =
    remote === null ? 0 : Number(await git("rev-list", "--count", "HEAD", "--not", `--remotes=${remote}`));
  const parts = [
    ...(changed > 0
      ? [`${counted(changed, "uncommitted file")} ${changed === 1 ? "is" : "are"} not included`]
      : []),
    ...(unpushed > 0 ? [`${counted(unpushed, "commit")} ${unpushed === 1 ? "is" : "are"} not pushed`] : []),
  ];
  return parts.length === 0 ? "" : `; ${parts.join(", ")}`;
};

const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");

/** In English, and without a lock that would be in the user's way. */
const runGit = (...args: string[]) =>
  userGit(args, { env: { ...process.env, LC_ALL: "C", GIT_OPTIONAL_LOCKS: "0", GIT_TERMINAL_PROMPT: "0" } });

const git = async (...args: string[]): Promise<string> => (await runGit(...args)).stdout;
