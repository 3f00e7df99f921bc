import { matchesPath } from "../profiles/match.ts";
import type { JobSecret } from "./secrets.ts";

/** The base of a job's worktree. `isOwn`: this service may have pushed it. `defaultBranch` null: the remote did not say. */
type Base = { branch: string; defaultBranch: string | null; isOwn: boolean; isUntouched: boolean };

/**
 * Why a setup does not get a plain secret, with the cure; null: it does. Whoever writes what the setup runs learns the value.
 *
 * | the worktree                  | its base                             | the setup gets it |
 * |-------------------------------|--------------------------------------|-------------------|
 * | is not new                    |                                      | no                |
 * | is new                        | is a branch that this service pushed | no                |
 * |                               | is the remote's default branch       | yes               |
 * |                               | fits one of the secret's `branches`  | yes               |
 * |                               | is another one                       | no                |
 */
export const whyWithheld = (
  { name, branches }: Pick<JobSecret, "name" | "branches">,
  { branch, defaultBranch, isOwn, isUntouched }: Base,
): string | null => {
  const because = (why: string, cure: string): string =>
    `The setup did not get ${name}, which is a plain secret: ${why}. ${cure}, or give the secret hosts without plain: a placeholder is given everywhere`;
  const elsewhere = "Base a new job on a branch of people";
  if (!isUntouched) return because("the worktree is not new, so an agent may have worked in it", elsewhere);
  if (isOwn) return because(`the base ${branch} is a branch that this service pushed`, elsewhere);
  if (branch === defaultBranch || branches.some((glob) => matchesPath(glob, branch))) return null;
  const why = `the base ${branch} is not the remote's default branch (${defaultBranch ?? "which it did not say"})`;
  return because(why, `Set it again with --branch ${branch} (svc secrets set)`);
};
