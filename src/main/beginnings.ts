import { ServiceError } from "../contract/errors.ts";
import type { Handlers } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { WorktreeStore } from "../store/worktree-store.ts";

export type IdStores = { jobs: Pick<JobStore, "startingWith">; worktrees: Pick<WorktreeStore, "list"> };

/** What has an id that begins so. `task`: what tells it from others. */
type Find = (
  beginning: string,
) => Promise<{ id: string; created_at: string; status: string; task: string }[]>;

/**
 * Handlers that take the beginning of an id for it wherever an operation takes one, as it is or in the name of a branch:
 * `d21c2bea`, `service/d21c2bea`, at least four digits of it. The operation itself answers that there is none.
 */
export const acceptBeginnings = (
  handlers: Handlers<Operations>,
  { jobs, worktrees }: IdStores,
): Handlers<Operations> => {
  const findJobs = (beginning: string): Promise<JobRecord[]> => jobs.startingWith(beginning, mostRead);
  const findWorktrees: Find = async (beginning) => [
    ...(await worktrees.list())
      .map(({ worktree_id: id, repo_url: task, ...rest }) => ({ ...rest, id, task }))
      .filter(({ id }) => id.startsWith(beginning)),
    ...(await findJobs(beginning)).filter(hasOwnWorktree),
  ];
  const fields: Record<string, (value: string) => Promise<string>> = {
    job_id: (word) => complete(findJobs, word),
    worktree_id: (word) => complete(findWorktrees, word),
    paths: async (list) => {
      const names: string[] = [];
      for (const word of list.split(",")) names.push(await complete(findWorktrees, word.trim()));
      return names.join(",");
    },
  };
  const completed = async (input: Record<string, unknown>): Promise<Record<string, unknown>> => {
    const changed = { ...input };
    for (const [name, completeField] of Object.entries(fields))
      if (typeof input[name] === "string") changed[name] = await completeField(input[name]);
    return changed;
  };
  const wrapped = Object.entries(handlers).map(([name, handle]) => [
    name,
    // Each gets the input it had, which the compiler cannot see in a loop.
    async (input: never, context: never) =>
      (handle as (input: unknown, context: never) => unknown)(await completed(input), context),
  ]);
  return Object.fromEntries(wrapped) as Handlers<Operations>;
};

/** Most jobs that are looked at for one beginning, and candidates that are named. */
const [mostRead, mostNamed] = [50, 5];

const complete = async (find: Find, word: string): Promise<string> => {
  const [, digits] = /^(?:service\/)?(?:wt-)?([0-9a-f]{4}[0-9a-f-]{0,31})$/i.exec(word) ?? [];
  if (digits === undefined) return word;
  const found = await find(digits.toLowerCase());
  if (found.length <= 1) return found[0]?.id ?? word;
  const lines = found
    .toSorted((a, b) => b.created_at.localeCompare(a.created_at))
    .slice(0, mostNamed)
    .map(({ id, status, task }) => `\n  ${id}  ${status}  ${task.slice(0, 60).replaceAll(/\s+/g, " ")}`);
  const more = found.length > mostNamed ? "\n  …" : "";
  throw new ServiceError(
    "ambiguous_id",
    `Several ids begin with ${digits}: give more digits.${lines.join("")}${more}`,
  );
};

const hasOwnWorktree = ({ id, worktree_id, worktree_path, worktree_removed_at }: JobRecord): boolean =>
  worktree_path !== null && worktree_removed_at === null && (worktree_id ?? id) === id;
