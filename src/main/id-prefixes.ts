import { ServiceError } from "../contract/errors.ts";
import type { Handlers } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { WorktreeStore } from "../store/worktree-store.ts";

export type IdStores = { jobs: Pick<JobStore, "startingWith">; worktrees: Pick<WorktreeStore, "list"> };

/** What has an id that begins so. `task`: what tells it from others. */
type Find = (digits: string) => Promise<{ id: string; created_at: string; status: string; task: string }[]>;

/**
 * Handlers that resolve id prefixes wherever an operation takes an id, as it is or in the name of a branch: `d21c2bea`,
 * `service/d21c2bea`, at least four digits of it. The operation itself answers that there is none.
 */
export const resolveIdPrefixes = (
  handlers: Handlers<Operations>,
  { jobs, worktrees }: IdStores,
): Handlers<Operations> => {
  const findJobs = (digits: string): Promise<JobRecord[]> => jobs.startingWith(digits, mostRead);
  const findWorktrees: Find = async (digits) => [
    ...(await worktrees.list())
      .map(({ worktree_id: id, repo_url: task, ...rest }) => ({ ...rest, id, task }))
      .filter(({ id }) => id.startsWith(digits)),
    ...(await findJobs(digits)).filter(hasOwnWorktree),
  ];
  const finders: Record<string, Find> = {
    job_id: findJobs,
    worktree_id: findWorktrees,
    paths: findWorktrees,
  };
  const resolved = async (input: object): Promise<object> => {
    const fields = Object.entries(input).map(async ([name, value]: [string, unknown]) => {
      const find = finders[name];
      if (find === undefined || typeof value !== "string") return [name, value];
      const ids = await Promise.all(value.split(",").map((word) => resolve(find, word.trim())));
      return [name, ids.join(",")];
    });
    return Object.fromEntries(await Promise.all(fields)) as object;
  };
  const wrapped = Object.entries(handlers).map(([name, handle]) => [
    name,
    // Each gets the input it had, which the compiler cannot see in a loop.
    async (input: object, context: never) => await handle((await resolved(input)) as never, context),
  ]);
  return Object.fromEntries(wrapped) as Handlers<Operations>;
};

/** Most jobs that are looked at for one prefix, and candidates that are named. */
const [mostRead, mostNamed] = [50, 5];

const resolve = async (find: Find, word: string): Promise<string> => {
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
