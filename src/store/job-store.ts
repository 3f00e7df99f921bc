import { ServiceError } from "../contract/errors.ts";
import { isFinal, jobStatuses, type JobStatus } from "../contract/job.ts";
import { isJobId, parseRecord, type JobRecord } from "./job-record.ts";
import type { Index, IndexEntry, Kind, Position, Records } from "./records.ts";

/**
 * Records of jobs. Every change of an existing record is one compare-and-set: it happens only when the record
 * still has one of the statuses (and the attempt) that the writer saw, so a later or frozen writer can never
 * overwrite a final state.
 *
 * Every function rejects with `ServiceError("store_unavailable")` when the store cannot do it (disk full, read-only,
 * gone); nothing is half done then.
 */
export type JobStore = {
  /**
   * Durable when it resolves. With an idempotency key that is known already, stores nothing and returns that record.
   * Refuses when as many as `maxQueued` jobs wait already, or when another job's id begins with the same eight digits.
   */
  create: (record: JobRecord, limits?: { maxQueued: number }) => Promise<Creation>;
  /** The whole record, or null for an id that is unknown or malformed. */
  get: (id: string) => Promise<JobRecord | null>;
  /** Newest first by `created_at`, then id. `cursor` is the `next` of the page before. */
  list: (query: ListQuery) => Promise<{ records: JobRecord[]; next: string | null }>;
  /**
   * Applies `patch`, or what it makes of the record as it is then, when the guard holds and returns the new record; returns
   * null when it does not hold, the job is unknown, or `patch` says null. Durable when it resolves, unless `lazy`: then it is durable with the next write of the job at the latest
   * (for progress that a crash may lose).
   */
  update: (
    id: string,
    guard: UpdateGuard,
    patch: JobPatch | ((record: JobRecord) => JobPatch | null),
    options?: { lazy?: boolean },
  ) => Promise<JobRecord | null>;
  /** Deletes a record in a final state. Unknown ids are ignored. */
  remove: (id: string) => Promise<void>;
  /** Ids of this status, oldest first, at most `limit`; the `from` oldest are left out. */
  ids: (status: JobStatus, limit?: number, from?: number) => Promise<string[]>;
  /** Jobs whose run has not been cleaned up (`unsettled`), of all instances, oldest first. */
  unsettled: () => Promise<UnsettledRun[]>;
  /** How many jobs there are of each status. */
  counts: () => Promise<Record<JobStatus, number>>;
  /** The newest job that ran this agent session. */
  findBySession: (sessionId: string) => Promise<JobRecord | null>;
  /** Ids of the queued jobs that resume this agent session, oldest first. */
  queuedInSession: (sessionId: string) => Promise<string[]>;
  /** The jobs that have used this worktree, or wait for it, oldest first. */
  usesOfWorktree: (worktreeId: string) => Promise<WorktreeUse[]>;
  /**
   * Ids of jobs whose time is over at `now` (ms since the epoch): queued ones past their TTL, settled final ones past
   * theirs. Not all at once when they are many.
   */
  due: (now: number) => Promise<{ expired: string[]; removable: string[] }>;
  /** Ids of settled jobs that ended before `endedBefore` (ms) and whose worktree still stands on this instance's disk. */
  worktreesDue: (endedBefore: number) => Promise<string[]>;
  /** Counts a job that was lost, or recovered, with its instance. */
  count: (what: keyof Tally) => Promise<void>;
  /** All that was counted: in files since this start, in a key-value store ever since. */
  tally: () => Promise<Tally>;
  /** Rejects when nothing can be stored at present. */
  check: () => Promise<void>;
  close: () => Promise<void>;
};

/** `full`: too many wait; `prefix`: another job's id begins with the same eight digits, which branches are named by. */
export type Creation = { record: JobRecord; created: boolean } | { refused: "full" | "prefix" };

/** Where a run that has not been cleaned up is, or was. */
export type UnsettledRun = { id: string; podName: string; epoch: string };

/** `lost`: failed with their instance; `recovered`: queued again after the loss of one. */
type Tally = { lost: number; recovered: number };

/** `unsettled`: the job may have ended, but its run has not been cleaned up. `ended` in ms since the epoch. */
export type WorktreeUse = { jobId: string; status: JobStatus; unsettled: boolean; ended: number | null };

export type ListQuery = { limit: number; status: JobStatus | ""; cursor: string };
type UpdateGuard = { status: readonly JobStatus[]; attempt?: number };
export type JobPatch = Partial<Omit<JobRecord, "id" | "format" | "created_at" | "idempotency">>;

const byCreation = (name: string): Index => ({ name, order: "creation" });
const byTime = (name: string): Index => ({ name, order: "time" });
const table = (name: string): Index => ({ name, order: "none" });

const all = byCreation("all");
const ofStatus = (status: JobStatus): Index => byCreation(`st:${status}`);
const ofSession = (session: string): Index => byCreation(`session:${session}`);
const [expiring, removable] = [byTime("expiring"), byTime("removable")];
const unsettledRuns = table("unsettled");
const worktreeUses = (worktree: string): Index => table(`worktree:${worktree}`);
const standingWorktrees = (pod: string): Index => byTime(`worktrees:${pod}`);

/** How long an output that is kept apart stays past the time its record may be deleted, s. */
const outputGrace = 86_400;

/**
 * `{prefix:j}:job:{id}` and indexes in the same slot, an output that is not short in a slot of its own; or a file each.
 * `podName` null: all worktrees are on the disk of the one instance there is.
 */
export const jobKind = (podName: string | null): Kind<JobRecord> => ({
  noun: "job",
  isId: isJobId,
  parse: parseRecord,
  entries: (record) => entriesOf(record, podName === null ? "" : (record.pod_name ?? "")),
  claims: ({ id, idempotency }) => [
    // Branches are named by it.
    { name: "prefixes", value: prefixOf(id), holder: false },
    ...(idempotency === null ? [] : [{ name: "idem", value: idempotency.key, holder: true }]),
  ],
  files: { inMemory: ({ status, unsettled }) => !isFinal(status) || unsettled },
  redis: {
    layout: "hash",
    version: "rev",
    key: (id) => ["job", id],
    oneSlot: true,
    apart: { field: "output", key: "out", seconds: (record) => record.ttl_seconds + outputGrace },
  },
});

const prefixOf = (id: string): string => id.slice(0, 8);

const entriesOf = (record: JobRecord, pod: string): IndexEntry[] => {
  const { id, status, unsettled, session_id, worktree_id } = record;
  const created = Date.parse(record.created_at);
  const ended = record.ended_at === null ? null : Date.parse(record.ended_at);
  const lifetime = record.ttl_seconds * 1000;
  const stands = record.worktree_path !== null && record.worktree_removed_at === null;
  const { pod_name, instance_epoch } = record;
  return [
    { index: all, at: created },
    { index: ofStatus(status), at: created },
    when(status === "queued", { index: expiring, at: created + lifetime }),
    when(isFinal(status) && !unsettled, { index: removable, at: (ended ?? created) + lifetime }),
    when(unsettled, { index: unsettledRuns, at: 0, value: [created, pod_name ?? "", instance_epoch ?? ""] }),
    when(stands && !unsettled, { index: standingWorktrees(pod), at: ended ?? Number.NaN }),
    // The job that made it is found by its id.
    when(worktree_id !== null && worktree_id !== id, {
      index: worktreeUses(worktree_id ?? ""),
      at: 0,
      value: [created, status, unsettled, ended],
    }),
    when(session_id !== null, { index: ofSession(session_id ?? ""), at: created }),
  ].flat();
};

const when = (holds: boolean, entry: IndexEntry): IndexEntry | [] => (holds ? entry : []);

export const createJobStore = (records: Records<JobRecord>, podName: string | null): JobStore => {
  const getAll = async (ids: readonly string[]): Promise<JobRecord[]> => {
    const found = await Promise.all(ids.map(records.get));
    return found.filter((record) => record !== null);
  };

  const create = async (record: JobRecord, max: number, ignored?: string): Promise<Creation> => {
    const limit = { index: ofStatus("queued"), max };
    const answer = await records.create(record.id, record, {
      limit,
      ...(ignored !== undefined && { ignored }),
    });
    if (answer === "created") return { record, created: true };
    if (answer === "full") return { refused: "full" };
    if (answer.takenBy === null) return { refused: "prefix" };
    const earlier = await records.get(answer.takenBy);
    if (earlier !== null) return { record: earlier, created: false };
    // Deleted meanwhile, or nobody can read it: the key is free.
    return await create(record, max, answer.takenBy);
  };

  return {
    create: (record, limits) => create(record, limits?.maxQueued ?? Infinity),
    get: records.get,

    /** One more than asked for tells whether a page follows. */
    list: async ({ limit, status, cursor }) => {
      const before = cursor === "" ? null : parseCursor(cursor);
      const page = await records.newest(status === "" ? all : ofStatus(status), { limit: limit + 1, before });
      const last = page.length > limit ? page[limit - 1] : undefined;
      const shown = await getAll(page.slice(0, limit).map(({ id }) => id));
      return { records: shown, next: last === undefined ? null : toCursor(last) };
    },

    update: async (id, guard, patch, options) => {
      const next = (current: JobRecord | null): JobRecord | undefined => {
        if (current === null || !holds(guard, current)) return undefined;
        const made = typeof patch === "function" ? patch(current) : patch;
        return made === null ? undefined : { ...current, ...made };
      };
      const { after, changed } = await records.change(id, next, options);
      return changed ? after : null;
    },

    remove: async (id) => {
      await records.change(id, (current) => (current !== null && isFinal(current.status) ? null : undefined));
    },

    ids: (status, limit, skip) =>
      records.oldest(ofStatus(status), { ...(limit !== undefined && { limit, skip: skip ?? 0 }) }),

    unsettled: async () => {
      const runs = (await records.values(unsettledRuns)).map(([id, value]) => {
        const [created, run, epoch] = value as [number, string, string];
        return { id, podName: run, epoch, created };
      });
      return runs.toSorted(byAge).map(({ created: _c, ...run }) => run);
    },

    counts: async () => {
      const counted = await Promise.all(
        jobStatuses.map(async (status) => [status, await records.count(ofStatus(status))] as const),
      );
      return Object.fromEntries(counted) as Record<JobStatus, number>;
    },

    findBySession: async (sessionId) => {
      const [newest] = await records.newest(ofSession(sessionId), { limit: 1 });
      return newest === undefined ? null : await records.get(newest.id);
    },
    queuedInSession: (sessionId) => records.oldest(ofSession(sessionId), { and: ofStatus("queued") }),

    usesOfWorktree: async (worktreeId) => {
      if (!isJobId(worktreeId)) return [];
      const [others, maker] = await Promise.all([
        records.values(worktreeUses(worktreeId)),
        records.get(worktreeId),
      ]);
      const uses = others.map(([id, value]) => {
        const [created, status, unsettled, ended] = value as [number, JobStatus, boolean, number | null];
        return { id, created, status, unsettled, ended };
      });
      if (maker !== null) {
        const { id, status, unsettled, ended_at, created_at } = maker;
        const ended = ended_at === null ? null : Date.parse(ended_at);
        uses.push({ id, created: Date.parse(created_at), status, unsettled, ended });
      }
      return uses.toSorted(byAge).map(({ id, created: _c, ...use }) => ({ jobId: id, ...use }));
    },

    due: async (now) => {
      const [expired, over] = await Promise.all([records.due(expiring, now), records.due(removable, now)]);
      return { expired, removable: over };
    },
    worktreesDue: (endedBefore) => records.due(standingWorktrees(podName ?? ""), endedBefore),

    count: records.increment,
    tally: async () => {
      const [lost = 0, recovered = 0] = await records.counters(["lost", "recovered"]);
      return { lost, recovered };
    },

    check: records.check,
    close: records.close,
  };
};

const holds = (guard: UpdateGuard, record: JobRecord): boolean =>
  guard.status.includes(record.status) && (guard.attempt ?? record.attempt) === record.attempt;

const byAge = (a: { created: number; id: string }, b: { created: number; id: string }): number =>
  a.created - b.created || (a.id < b.id ? -1 : 1);

/** A page's end as an opaque text: jobs before this position follow. */
const toCursor = ({ created, id }: Position): string => `${created}_${id}`;

/** @throws ServiceError `invalid_request` when the text is not one of ours */
const parseCursor = (cursor: string): Position => {
  const match = /^(\d{1,15})_([0-9a-f-]{36})$/.exec(cursor);
  if (match === null) {
    throw new ServiceError("invalid_request", "cursor: must be the next_cursor of an earlier page");
  }
  return { created: Number(match[1]), id: match[2] ?? "" };
};
