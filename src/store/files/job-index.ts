import { jobStatuses, type JobStatus } from "../../contract/job.ts";
import type { IndexEntry } from "../job-entry.ts";

/** Entries in order of creation, one list for all and one for each status. Adding the newest is O(1). */
export const createJobIndex = () => {
  const byId = new Map<string, IndexEntry>();
  const prefixes = new Set<string>();
  const all: IndexEntry[] = [];
  const byStatus = Object.fromEntries(jobStatuses.map((status) => [status, [] as IndexEntry[]])) as Record<
    JobStatus,
    IndexEntry[]
  >;

  /** Ids of the jobs of each worktree. */
  const byWorktree = new Map<string, Set<string>>();

  const leaveWorktree = ({ id, worktree }: IndexEntry): void => {
    const users = worktree === null ? undefined : byWorktree.get(worktree);
    users?.delete(id);
    if (worktree !== null && users?.size === 0) byWorktree.delete(worktree);
  };

  const joinWorktree = ({ id, worktree }: IndexEntry): void => {
    if (worktree === null) return;
    const users = byWorktree.get(worktree) ?? new Set();
    byWorktree.set(worktree, users.add(id));
  };

  const remove = (id: string): void => {
    const entry = byId.get(id);
    if (entry === undefined) return;
    leaveWorktree(entry);
    byId.delete(id);
    prefixes.delete(id.slice(0, 8));
    removeFrom(all, entry);
    removeFrom(byStatus[entry.status], entry);
  };

  const put = (entry: IndexEntry): void => {
    const old = byId.get(entry.id);
    if (old !== undefined) {
      // Order is by creation, which never changes: the place in `all` stays.
      all[find(all, old)] = entry;
      if (old.status === entry.status) {
        byStatus[entry.status][find(byStatus[entry.status], old)] = entry;
      } else {
        removeFrom(byStatus[old.status], old);
        insertInto(byStatus[entry.status], entry);
      }
    } else {
      insertInto(all, entry);
      insertInto(byStatus[entry.status], entry);
      prefixes.add(entry.id.slice(0, 8));
    }
    if (old !== undefined && old.worktree !== entry.worktree) leaveWorktree(old);
    joinWorktree(entry);
    byId.set(entry.id, entry);
  };

  /** Oldest first. A job that made it is among them also when a crash came before that was noted. */
  const ofWorktree = (worktree: string): IndexEntry[] =>
    [...new Set(byWorktree.get(worktree)).add(worktree)]
      .flatMap((id) => byId.get(id) ?? [])
      .toSorted((a, b) => (isBefore(a, b) ? -1 : 1));

  /** Many at once into the empty index: sorted once, where one by one each would move half of the others. */
  const fill = (entries: IndexEntry[]): void => {
    for (const entry of entries.toSorted((a, b) => (isBefore(a, b) ? -1 : 1))) put(entry);
  };

  return { fill, byId, all, byStatus, prefixes, put, remove, ofWorktree, position: find };
};

type Position = { created: number; id: string };

export const isBefore = (a: Position, b: Position): boolean =>
  a.created < b.created || (a.created === b.created && a.id < b.id);

/** Index of the first element that is not before `key`. */
const find = (list: readonly Position[], key: Position): number => {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(list[middle] as Position, key)) low = middle + 1;
    else high = middle;
  }
  return low;
};

const insertInto = (list: IndexEntry[], entry: IndexEntry): void => {
  const last = list.at(-1);
  if (last === undefined || isBefore(last, entry)) list.push(entry);
  else list.splice(find(list, entry), 0, entry);
};

const removeFrom = (list: IndexEntry[], entry: IndexEntry): void => {
  const at = find(list, entry);
  if (list[at]?.id === entry.id) list.splice(at, 1);
};
