import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { isFinal, jobStatuses, type JobStatus } from "../../contract/job.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import type { Log } from "../../lib/log.ts";
import { createTurns } from "../../lib/turns.ts";
import { withoutWaiting } from "../../lib/without-waiting.ts";
import type { JobRecord } from "../job-record.ts";
import type { JobStore, ListQuery } from "../job-store.ts";
import { parseCursor, toCursor } from "../cursor.ts";
import { toEntry, type IndexEntry } from "../job-entry.ts";
import { holds, isJobId, parseRecord } from "../stored-job.ts";
import { createJobIndex, isBefore } from "./job-index.ts";
import { loadRecords } from "./load-records.ts";
import { storeUnavailable } from "./store-unavailable.ts";

/**
 * One JSON file per job, replaced atomically; an index in memory. Jobs that are not final are kept whole in memory,
 * ended ones are read from their file. One server per directory: whoever opens it holds the directory's lock.
 */
export const openFilesJobStore = async (directory: string, log: Log): Promise<JobStore> => {
  const index = createJobIndex();
  const live = new Map<string, JobRecord>();
  const bySession = new Map<string, string>();
  const byKey = new Map<string, Promise<string>>();
  /** First digits of the ids of jobs that are being written for the first time. */
  const arriving = new Set<string>();
  const counted = { lost: 0, recovered: 0 };
  const { inTurn, settled } = createTurns();
  const file = (id: string): string => join(directory, `${id}.json`);

  const remember = (record: JobRecord): void => {
    index.put(toEntry(record));
    arriving.delete(record.id.slice(0, 8));
    keep(record);
  };

  const keep = (record: JobRecord): void => {
    if (isFinal(record.status) && !record.unsettled) live.delete(record.id);
    else live.set(record.id, record);
    if (record.session_id !== null)
      bySession.set(record.session_id, newest(bySession.get(record.session_id), record.id));
    if (record.idempotency !== null) byKey.set(record.idempotency.key, Promise.resolve(record.id));
  };

  const newest = (one: string | undefined, other: string): string => {
    const [a, b] = [index.byId.get(one ?? ""), index.byId.get(other)];
    return a !== undefined && b !== undefined && isBefore(b, a) ? a.id : other;
  };

  const write = async (record: JobRecord): Promise<void> => {
    try {
      await writeFileAtomic(file(record.id), JSON.stringify(record));
    } catch (cause) {
      throw storeUnavailable(directory, cause);
    }
    remember(record);
  };

  const read = async (id: string): Promise<JobRecord | null> => {
    const known = live.get(id);
    if (known !== undefined) return known;
    if (!isJobId(id) || !index.byId.has(id)) return null;
    try {
      const text = await readFile(file(id), { encoding: "utf8", flag: withoutWaiting.read });
      const record = parseRecord(text, id);
      return typeof record === "string" ? skip(id, record) : record;
    } catch (cause) {
      if (!index.byId.has(id)) return null;
      if (await isGoneAlone(id)) return skip(id, "it is gone");
      throw storeUnavailable(directory, cause);
    }
  };

  /** As at start: one file that somebody spoilt must not spoil the lists that its job is in. */
  const skip = (id: string, why: string): null => {
    log.warn({ file: file(id) }, `job file skipped: ${why}`);
    index.remove(id);
    return null;
  };

  const isGoneAlone = async (id: string): Promise<boolean> => {
    const names = await readdir(directory).catch(() => null);
    return names !== null && !names.includes(`${id}.json`);
  };

  const loaded: IndexEntry[] = [];
  await loadRecords(
    directory,
    (record) => {
      loaded.push(toEntry(record));
      keep(record);
    },
    log,
  );
  index.fill(loaded);
  // The newest job of a session wins, whatever order the files were read in.
  for (const entry of index.all) if (entry.session !== null) bySession.set(entry.session, entry.id);

  return {
    create: async (record, limits) => {
      const key = record.idempotency?.key;
      const earlier = key === undefined ? undefined : byKey.get(key);
      if (earlier !== undefined) {
        const known = await read(await earlier);
        if (known !== null) return { record: known, created: false };
      }
      // Those being written count: what is asked at the same time must not pass together.
      if (index.byStatus.queued.length + arriving.size >= (limits?.maxQueued ?? Infinity))
        return { refused: "full" };
      const prefix = record.id.slice(0, 8);
      if (index.prefixes.has(prefix) || arriving.has(prefix)) return { refused: "prefix" };
      arriving.add(prefix);
      const written = inTurn(record.id, () => write(record));
      if (key !== undefined)
        byKey.set(
          key,
          written.then(() => record.id),
        );
      try {
        await written;
        return { record, created: true };
      } catch (error) {
        if (key !== undefined) byKey.delete(key);
        throw error;
      } finally {
        arriving.delete(prefix);
      }
    },

    get: read,

    list: async (query) => {
      const { entries, next } = page(
        query.status === "" ? index.all : index.byStatus[query.status],
        query,
        index.position,
      );
      const records = await Promise.all(entries.map((entry) => read(entry.id)));
      return { records: records.filter((record) => record !== null), next };
    },

    update: (id, guard, patch, { lazy = false } = {}) =>
      inTurn(id, async () => {
        const record = await read(id);
        if (record === null || !holds(guard, record)) return null;
        const next = { ...record, ...(typeof patch === "function" ? patch(record) : patch) };
        if (lazy) remember(next);
        else await write(next);
        return next;
      }),

    remove: (id) =>
      inTurn(id, async () => {
        const entry = index.byId.get(id);
        if (entry === undefined || !isFinal(entry.status)) return;
        await rm(file(id), { force: true });
        if (entry.session !== null && bySession.get(entry.session) === id) bySession.delete(entry.session);
        if (entry.idempotencyKey !== null) byKey.delete(entry.idempotencyKey);
        index.remove(id);
        live.delete(id);
      }),

    ids: async (status, limit = Infinity, from = 0) =>
      index.byStatus[status].slice(from, from + limit).map((entry) => entry.id),
    unsettled: async () =>
      [...live.values()]
        .filter((record) => record.unsettled)
        .toSorted((a, b) => Date.parse(a.created_at) - Date.parse(b.created_at) || (a.id < b.id ? -1 : 1))
        .map(({ id, pod_name, instance_epoch }) => ({
          id,
          podName: pod_name ?? "",
          epoch: instance_epoch ?? "",
        })),
    counts: async () =>
      Object.fromEntries(jobStatuses.map((status) => [status, index.byStatus[status].length])) as Record<
        JobStatus,
        number
      >,
    findBySession: async (sessionId) => {
      const id = bySession.get(sessionId);
      return id === undefined ? null : await read(id);
    },
    queuedInSession: async (sessionId) =>
      index.byStatus.queued.filter(({ session }) => session === sessionId).map(({ id }) => id),

    usesOfWorktree: async (worktreeId) =>
      index
        .ofWorktree(worktreeId)
        .map(({ id, status, unsettled, ended }) => ({ jobId: id, status, unsettled, ended })),

    due: async (now) => {
      const over = index.all.filter(
        (entry) =>
          entry.deadline !== null && entry.deadline <= now && (entry.status === "queued" || !entry.unsettled),
      );
      return {
        expired: over.filter((entry) => entry.status === "queued").map((entry) => entry.id),
        removable: over.filter((entry) => entry.status !== "queued").map((entry) => entry.id),
      };
    },
    worktreesDue: async (endedBefore) =>
      index.all
        .filter(
          (entry) =>
            entry.worktreeStands && !entry.unsettled && entry.ended !== null && entry.ended <= endedBefore,
        )
        .map((entry) => entry.id),
    count: async (what) => {
      counted[what] += 1;
    },
    tally: async () => ({ ...counted }),

    check: async () => {
      try {
        const probe = join(directory, ".probe");
        await writeFileAtomic(probe, probeData);
        await rm(probe, { force: true });
      } catch (cause) {
        throw storeUnavailable(directory, cause);
      }
    },

    close: settled,
  };
};

/** As much as a record takes: on a full disk an empty file can still be made. */
const probeData = "-".repeat(65_536);

type Find = (list: readonly IndexEntry[], key: { created: number; id: string }) => number;

/** The entries of a page, newest first, from a list in order of creation. */
const page = (list: readonly IndexEntry[], { limit, cursor }: ListQuery, find: Find) => {
  const end = cursor === "" ? list.length : find(list, parseCursor(cursor));
  const start = Math.max(0, end - limit);
  const entries = list.slice(start, end).reverse();
  const last = entries.at(-1);
  return { entries, next: start > 0 && last !== undefined ? toCursor(last) : null };
};
