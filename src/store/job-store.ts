import { isFinal, jobStatuses, type JobStatus } from "../contract/job.ts";
import { repositoryName } from "../contract/repository-url.ts";
import { all, byAge, listJobs, ofSession, ofStatus } from "./job-list.ts";
import { expiresAt, goesOnAt, isJobId, isParked, parseRecord, type JobRecord } from "./job-record.ts";
import { maxBatch, type IndexEntry, type Kind, type Query, type Records } from "./records.ts";

/**
 * Records of jobs. Every change of an existing record is one compare-and-set: it requires that the record still has one of
 * the statuses (and the attempt) that the writer expects, so a late or frozen writer can never overwrite a final state.
 *
 * Every function rejects with `ServiceError("store_unavailable")` when the store cannot do it (disk full, read-only,
 * missing); nothing is half done then.
 */
export const createJobStore = (records: Records<JobRecord>, podName: string | null) => {
  const getAll = async (ids: readonly string[]): Promise<JobRecord[]> =>
    (await Promise.all(ids.map(records.get))).filter((record) => record !== null);

  const idsIn = async (index: string, query: Query): Promise<string[]> =>
    (await records.list(index, query)).map(({ id }) => id);

  const create = async (record: JobRecord, max: number, ignored = ""): Promise<Creation> => {
    const answer = await records.create(record.id, record, {
      limit: { index: ofStatus("queued"), max },
      ignored,
    });
    if (answer === "created") return { record, created: true };
    if (answer === "full") return { refused: "full" };
    if (!answer.taken.startsWith("idem:")) return { refused: "prefix" };
    const earlier = await records.get(answer.by);
    if (earlier !== null) return { record: earlier, created: false };
    // The record is deleted or unreadable: the key is free.
    return await create(record, max, answer.by);
  };

  /** The jobs that made worktrees, by the id of both, that nothing can happen to any more. */
  const makers = new Map<string, ReturnType<typeof useOf>>();

  return {
    /**
     * Stores nothing when the idempotency key is known, and returns its record. Refuses when `maxQueued` jobs wait already,
     * or when another job's id begins with the same eight digits.
     */
    create: (record: JobRecord, limits?: { maxQueued: number }): Promise<Creation> =>
      create(record, limits?.maxQueued ?? Infinity),

    /** The whole record, or null for an id that is unknown or malformed. */
    get: records.get,

    /** Records whose id begins with this text, in no order. */
    startingWith: async (beginning: string, limit: number): Promise<JobRecord[]> =>
      getAll(await idsIn(ids, { beginning, limit })),

    /**
     * Newest first by `created_at`, then id. `cursor` is the `next` of the page before. With `isWanted` a call reads at most
     * `maxRead` records: a page may be short, even empty, and the next one goes on.
     */
    list: listJobs(records, getAll),

    /**
     * Applies `patch`, or what it makes of the current record, when the guard holds, and returns the new record. Null: the
     * guard does not hold, the job is unknown, or `patch` returns null. `lazy` changes are durable with the next change of
     * the job (for progress that a crash may lose).
     */
    update: async (
      id: string,
      guard: UpdateGuard,
      patch: JobPatch | ((record: JobRecord) => JobPatch | null),
      options?: { lazy?: boolean },
    ): Promise<JobRecord | null> => {
      const next = (current: JobRecord | null): JobRecord | undefined => {
        if (current === null || !matches(guard, current)) return undefined;
        const changes = typeof patch === "function" ? patch(current) : patch;
        return changes === null ? undefined : { ...current, ...changes };
      };
      const { after, changed } = await records.change(id, next, options);
      return changed ? after : null;
    },

    /** Deletes a record in a final state. Unknown ids are ignored. */
    remove: async (id: string): Promise<void> => {
      makers.delete(id);
      await records.change(id, (current) => (current !== null && isFinal(current.status) ? null : undefined));
    },

    /** Ids of this status, oldest first, at most `limit`; the oldest `skip` are left out. */
    ids: (status: JobStatus, limit = Infinity, skip = 0): Promise<string[]> =>
      idsIn(ofStatus(status), { limit, skip }),

    /** Jobs whose run has not been cleaned up, of all instances, oldest first. */
    unsettled: async (): Promise<UnsettledRun[]> =>
      (await records.list(unsettledRuns)).map(({ id, value = "" }) => {
        const [podName = "", epoch = "", keptUntil = null] =
          parsed<[string, string, number | null]>(value) ?? [];
        return { id, podName, epoch, keptUntil };
      }),

    /** How many jobs there are of each status. */
    counts: async (): Promise<Record<JobStatus, number>> => {
      const counted = await Promise.all(
        jobStatuses.map(async (status) => [status, await records.count(ofStatus(status))] as const),
      );
      return Object.fromEntries(counted) as Record<JobStatus, number>;
    },

    /** The newest job that ran this agent session. */
    findBySession: async (sessionId: string): Promise<JobRecord | null> => {
      const [newest] = await idsIn(ofSession(sessionId), { newest: true, limit: 1 });
      return newest === undefined ? null : await records.get(newest);
    },

    /** Ids of the queued jobs that resume this agent session, oldest first. */
    queuedInSession: (sessionId: string): Promise<string[]> => idsIn(ofSession(sessionId, "queued"), {}),

    /** Ids of the running jobs, also parked ones, of this agent session. */
    runningInSession: (sessionId: string): Promise<string[]> => idsIn(ofSession(sessionId, "running"), {}),

    /** Whether a job has worked on this branch of the repository. */
    hasBranch: async (repoUrl: string, branch: string): Promise<boolean> =>
      (await records.count(ofBranch(repoUrl, branch))) > 0,

    /** Jobs that have used this worktree, or wait for it, oldest first. */
    usesOfWorktree: async (worktreeId: string): Promise<WorktreeUse[]> => {
      if (!isJobId(worktreeId)) return [];
      const [others, maker] = await Promise.all([
        records.list(worktreeUses(worktreeId)),
        makers.get(worktreeId) ?? records.get(worktreeId),
      ]);
      const uses = others.flatMap(({ value = "", ...position }) => {
        const use = parsed<[JobStatus, boolean, number | null]>(value);
        return use === null ? [] : { ...position, status: use[0], unsettled: use[1], ended: use[2] };
      });
      const made = maker !== null && "created_at" in maker ? useOf(maker) : maker;
      if (made !== null) uses.push(made);
      if (makers.size >= mostMakers) makers.clear();
      if (made !== null && isFinal(made.status) && !made.unsettled) makers.set(worktreeId, made);
      return uses.toSorted(byAge).map(({ id, at: _a, ...use }) => ({ jobId: id, ...use }));
    },

    /**
     * Ids of jobs that are due at `until` (ms since the epoch), oldest first, at most 500 after the first `skip`. `expired`:
     * queued ones past their TTL; `removable`: settled final ones past it; `worktrees`: settled ones that ended before and
     * whose worktree is still on this instance's disk; `unbooked`: those that ended before and are not `booked`; `resumable`:
     * parked or held ones that can go on since then; `unanswered`: those whose time for it is over.
     */
    due: (what: Due, until: number, skip = 0): Promise<string[]> => {
      const worktrees = endedWorktrees(podName ?? "");
      const indexes = { expired: expiring, removable, unbooked, worktrees, resumable, unanswered };
      return idsIn(indexes[what], { until, skip, limit: maxBatch });
    },

    /** When the first job goes on that is parked for the usage limit of a credential, ms since the epoch; null: none is. */
    limitedUntil: async (credential: string): Promise<number | null> => {
      const [first] = await records.list(limitOf(credential), { limit: 1 });
      return first?.at ?? null;
    },

    /** The credentials for whose usage limit jobs are parked: when the first of them goes on, and how many they are. */
    limits: async (): Promise<ReachedLimit[]> => {
      const reached = new Map<string, ReachedLimit>();
      for (const { at, value: credential = "" } of await records.list(limited)) {
        const before = reached.get(credential);
        if (before !== undefined) before.jobs += 1;
        else reached.set(credential, { credential, until: new Date(at).toISOString(), jobs: 1 });
      }
      return [...reached.values()];
    },

    /** Counts a job that was lost or recovered. */
    count: (what: keyof Tally): Promise<void> => records.increment(what),
    /** The counts: in files since this start, in a key-value store since the first start. */
    tally: async (): Promise<Tally> => {
      const [lost = 0, recovered = 0] = await records.counters(["lost", "recovered"]);
      return { lost, recovered };
    },

    /** Rejects when nothing can be stored at present. */
    check: records.check,
    close: records.close,
  };
};

export type JobStore = ReturnType<typeof createJobStore>;

/** `full`: too many jobs wait; `prefix`: another job's id begins with the same eight digits, which name branches. */
export type Creation = { record: JobRecord; created: boolean } | { refused: "full" | "prefix" };

/** The instance and start of a run that has not been cleaned up; how long the record of an ended job is kept, ms since the epoch. */
export type UnsettledRun = { id: string; podName: string; epoch: string; keptUntil: number | null };

/** `lost`: jobs that failed with their instance; `recovered`: jobs that were queued again after its loss. */
type Tally = { lost: number; recovered: number };

export type ReachedLimit = { credential: string; until: string; jobs: number };

/** `unsettled`: the run has not been cleaned up, though the job may have ended, or the job is parked. `ended` in ms since the epoch. */
export type WorktreeUse = { jobId: string; status: JobStatus; unsettled: boolean; ended: number | null };

export type Due = "expired" | "worktrees" | "removable" | "unbooked" | "resumable" | "unanswered";

/** `epoch`: of the start that runs it. */
type UpdateGuard = { status: readonly JobStatus[]; attempt?: number; epoch?: string | null };
export type JobPatch = Partial<Omit<JobRecord, "id" | "created_at" | "idempotency">>;

const [expiring, removable, unbooked] = ["expiring", "removable", "unbooked"];
const [resumable, unanswered] = ["resumable", "unanswered"];
const [unsettledRuns, ids, limited] = ["unsettled", "ids", "limited"];
const limitOf = (credential: string): string => `limit:${credential}`;
const ofBranch = (repoUrl: string, branch: string): string => `branch:${repositoryName(repoUrl)} ${branch}`;
const worktreeUses = (worktree: string): string => `worktree:${worktree}`;
const endedWorktrees = (pod: string): string => `worktrees:${pod}`;

/** How much longer than its record an output with a key of its own is retained, s. */
const outputGrace = 86_400;

/**
 * A file each; or `{prefix:j}:job:{id}`, indexes in the same slot, and a long output in a slot of its own. `podName` null:
 * there is one instance, and all worktrees are on its disk.
 */
export const jobKind = (podName: string | null): Kind<JobRecord> => ({
  noun: "job",
  key: "job",
  isId: isJobId,
  parse: parseRecord,
  entries: (record) => entriesOf(record, podName === null ? "" : (record.pod_name ?? "")),
  claims: ({ id, idempotency }) => [
    ...(idempotency === null ? [] : [`idem:${idempotency.key}`]),
    // It names branches.
    `${prefixClaim}:${id.slice(0, 8)}`,
  ],
  inMemory: ({ status, unsettled }) => !isFinal(status) || unsettled,
  long: { field: "output", key: "out", seconds: (record) => record.ttl_seconds + outputGrace },
});

const prefixClaim = "prefix";

const entriesOf = (record: JobRecord, pod: string): IndexEntry[] => {
  const { id, status, unsettled, session_id, worktree_id } = record;
  const at = Date.parse(record.created_at);
  const ended = record.ended_at === null ? null : Date.parse(record.ended_at);
  const lifetime = record.ttl_seconds * 1000;
  const hasWorktree = record.worktree_path !== null && record.worktree_removed_at === null;
  return [
    { index: all, at },
    { index: ids, at: 0 },
    { index: ofStatus(status), at },
    when(status === "queued", { index: expiring, at: expiresAt(record) }),
    when(isFinal(status) && !unsettled, { index: removable, at: (ended ?? at) + lifetime }),
    when(isUnbooked(record), { index: unbooked, at: ended ?? at }),
    when(unsettled, { index: unsettledRuns, at, value: runOf(record) }),
    parkedEntry(record),
    ...limitEntries(record),
    when(hasWorktree && !unsettled, { index: endedWorktrees(pod), at: ended ?? Number.NaN }),
    // The job that made the worktree is found by its id.
    when(worktree_id !== null && worktree_id !== id, {
      index: worktreeUses(worktree_id ?? ""),
      at,
      value: JSON.stringify([status, unsettled || isParked(record), ended]),
    }),
    ...[record, ...record.repositories].map(({ repo_url, branch }) =>
      when(branch !== null, { index: ofBranch(repo_url, branch ?? ""), at }),
    ),
    when(session_id !== null, { index: ofSession(session_id ?? ""), at }),
    when(session_id !== null, { index: ofSession(session_id ?? "", status), at }),
  ].flat();
};

const parkedEntry = (record: JobRecord): IndexEntry | [] => {
  const at = goesOnAt(record);
  if (at === null) return [];
  return at === Infinity
    ? { index: unanswered, at: Date.parse(record.asked?.waiting.until ?? "") }
    : { index: resumable, at };
};

/** Of a job that is parked for a usage limit. */
const limitEntries = (record: JobRecord): IndexEntry[] => {
  const { waiting, limit } = record;
  if (!isParked(record) || waiting?.kind !== "limit" || limit === null) return [];
  const at = Date.parse(waiting.until);
  return [
    { index: limited, at, value: limit.credential },
    { index: limitOf(limit.credential), at },
  ];
};

const useOf = ({ id, status, ended_at, created_at, ...record }: JobRecord) => {
  const unsettled = record.unsettled || isParked({ ...record, id, status, ended_at, created_at });
  const ended = ended_at === null ? null : Date.parse(ended_at);
  return { id, at: Date.parse(created_at), status, unsettled, ended };
};

const mostMakers = 10_000;

/** A run that has not been cleaned up: see `UnsettledRun`. */
const runOf = ({ pod_name, instance_epoch, ended_at, ttl_seconds }: JobRecord): string => {
  const keptUntil = ended_at === null ? null : Date.parse(ended_at) + ttl_seconds * 1000;
  return JSON.stringify([pod_name ?? "", instance_epoch ?? "", keptUntil]);
};

/** What a cancelled job cost is known once nothing of it runs. */
const isUnbooked = ({ booked, status, unsettled }: JobRecord): boolean =>
  booked === false && !(status === "cancelled" && unsettled);

const when = (condition: boolean, entry: IndexEntry): IndexEntry | [] => (condition ? entry : []);

const matches = (guard: UpdateGuard, record: JobRecord): boolean =>
  guard.status.includes(record.status) &&
  (guard.attempt ?? record.attempt) === record.attempt &&
  (guard.epoch === undefined || guard.epoch === record.instance_epoch);

/** The value of an index entry; null: somebody else has written it. */
const parsed = <Value extends unknown[]>(text: string): Value | null => {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? (value as Value) : null;
  } catch {
    return null;
  }
};
