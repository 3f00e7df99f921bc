import { isFinal, jobStatuses, type JobStatus } from "../../contract/job.ts";
import type { Kv } from "../../kv/kv.ts";
import type { Log } from "../../lib/log.ts";
import { createTurns } from "../../lib/turns.ts";
import { parseCursor, toCursor } from "../cursor.ts";
import type { JobRecord } from "../job-record.ts";
import type { Creation, JobStore, ListQuery, UnsettledRun, WorktreeUse } from "../job-store.ts";
import { isJobId } from "../stored-job.ts";
import { idOf, position } from "./job-facts.ts";
import { openJobRows } from "./job-rows.ts";
import { createUpdates } from "./job-updates.ts";

type Dependencies = {
  kv: Kv;
  /** Name of this instance: `worktreesDue` tells of its disk. */
  podName: string;
  log: Log;
};

/** How many due jobs are told at once. */
const mostDue = 500;

/**
 * Records and indexes in one slot of the key-value store, so that a script changes them together; outputs apart. What
 * another instance writes is seen at once: nothing is answered from memory but what the store says is unchanged.
 * The store's connection belongs to whoever opened it.
 */
export const openRedisJobStore = ({ kv, podName, log }: Dependencies): JobStore => {
  const rows = openJobRows({ kv, log });
  const turns = createTurns();
  const index = (...parts: string[]): string => kv.jobKey(...parts);

  const read = async (id: string): Promise<JobRecord | null> => (await rows.read(id))?.record ?? null;

  const create = async (record: JobRecord, maxQueued: number, ignored = ""): Promise<Creation> => {
    const answer = await rows.create(record, maxQueued, ignored);
    if (answer === "created") return { record, created: true };
    if (answer === "full" || answer === "prefix") return { refused: answer };
    const earlier = await read(answer);
    if (earlier !== null) return { record: earlier, created: false };
    // Deleted meanwhile, or nobody can read it: the key is free.
    return await create(record, maxQueued, answer);
  };

  /** One more than asked for tells whether a page follows. */
  const page = async ({ limit, status, cursor }: ListQuery) => {
    const before = cursor === "" ? "+" : `(${position(parseCursor(cursor))}`;
    const key = index(status === "" ? "all" : `st:${status}`);
    const members = await kv.ask((client) => client.zrevrangebylex(key, before, "-", "LIMIT", 0, limit + 1));
    return { ids: members.slice(0, limit).map(idOf), more: members.length > limit, last: members[limit - 1] };
  };

  const dueOf = (name: string, now: number): Promise<string[]> =>
    kv.ask((client) => client.zrangebyscore(index(name), "-inf", now, "LIMIT", 0, mostDue));

  return {
    create: (record, limits) => create(record, limits?.maxQueued ?? Infinity),
    get: read,
    hint: rows.hint,
    recall: rows.recall,

    list: async (query) => {
      const { ids, more, last } = await page(query);
      const records = await Promise.all(ids.map(read));
      const next = more && last !== undefined ? cursorAt(last) : null;
      return { records: records.filter((record) => record !== null), next };
    },

    update: createUpdates(rows, turns),

    remove: (id) =>
      turns.inTurn(id, async () => {
        for (let row = await rows.read(id); row !== null && isFinal(row.record.status);) {
          if (await rows.replace(row, null)) return;
          row = await rows.read(id);
        }
      }),

    ids: async (status, limit) => {
      const last = String((limit ?? 0) - 1);
      const members = await kv.ask((client) => client.zrange(index(`st:${status}`), 0, last));
      return members.map(idOf);
    },

    unsettled: async () => {
      const all = await kv.ask((client) => client.hgetall(index("unsettled")));
      return Object.entries(all)
        .flatMap(([id, value]) => runOf(id, value) ?? [])
        .toSorted((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1))
        .map(({ created: _c, ...run }) => run);
    },

    counts: async () => {
      const counted = await Promise.all(
        jobStatuses.map(async (status) => {
          const count = await kv.ask((client) => client.zcard(index(`st:${status}`)));
          return [status, count] as const;
        }),
      );
      return Object.fromEntries(counted) as Record<JobStatus, number>;
    },

    findBySession: async (sessionId) => {
      const [newest] = await kv.ask((client) => client.zrevrange(index(`session:${sessionId}`), 0, 0));
      return newest === undefined ? null : await read(idOf(newest));
    },

    usesOfWorktree: async (worktreeId) => {
      if (!isJobId(worktreeId)) return [];
      const [others, maker] = await Promise.all([
        kv.ask((client) => client.hgetall(index(`worktree:${worktreeId}`))),
        read(worktreeId),
      ]);
      const uses = Object.entries(others).map(([jobId, value]) => useOf(jobId, value));
      if (maker !== null) uses.push(useByMaker(maker));
      return uses
        .toSorted((a, b) => a.created - b.created || (a.jobId < b.jobId ? -1 : 1))
        .map(({ created: _c, ...use }) => use);
    },

    due: async (now) => {
      const [expired, removable] = await Promise.all([dueOf("expiring", now), dueOf("removable", now)]);
      return { expired, removable };
    },
    worktreesDue: (endedBefore) =>
      kv.ask((client) => client.zrangebyscore(index(`worktrees:${podName}`), "-inf", endedBefore)),

    count: async (what) => {
      await kv.ask((client) => client.hincrby(index("tally"), what, 1));
    },
    tally: async () => {
      const [lost, recovered] = await kv.ask((client) => client.hmget(index("tally"), "lost", "recovered"));
      return { lost: Number(lost ?? 0), recovered: Number(recovered ?? 0) };
    },

    check: kv.check,
    close: turns.settled,
  };
};

const cursorAt = (member: string): string =>
  toCursor({ created: Number.parseInt(member, 10), id: idOf(member) });

/** Null: nobody has written that; it is nothing to the other runs. */
const runOf = (id: string, value: string): (UnsettledRun & { created: number }) | null => {
  try {
    const [created, podName, epoch] = JSON.parse(value) as [number, string, string];
    return { id, podName, epoch, created };
  } catch {
    return null;
  }
};

type DatedUse = WorktreeUse & { created: number };

const useOf = (jobId: string, value: string): DatedUse => {
  const [created, status, unsettled, ended] = JSON.parse(value) as [
    number,
    JobStatus,
    boolean,
    number | null,
  ];
  return { jobId, status, unsettled, ended, created };
};

const useByMaker = ({ id, status, unsettled, ended_at, created_at }: JobRecord): DatedUse => ({
  jobId: id,
  status,
  unsettled,
  ended: ended_at === null ? null : Date.parse(ended_at),
  created: Date.parse(created_at),
});
