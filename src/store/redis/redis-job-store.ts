import { isFinal, jobStatuses, type JobStatus } from "../../contract/job.ts";
import { failureOf } from "../../kv/failure.ts";
import type { Kv, KvClient } from "../../kv/kv.ts";
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

  /** Asks an index. One that holds another type of value is made anew first. */
  const ask = async <Value>(
    name: string,
    work: (client: KvClient, key: string) => Promise<Value>,
  ): Promise<Value> => {
    const key = kv.jobKey(name);
    const asked = (): Promise<Value> => kv.ask((client) => work(client, key));
    return await asked().catch(async (error: unknown) => {
      if (failureOf(error) !== "value") throw error;
      await rows.heal(key);
      return await asked();
    });
  };

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
    const members = await ask(status === "" ? "all" : `st:${status}`, (client, key) =>
      client.zrevrangebylex(key, before, "-", "LIMIT", 0, limit + 1),
    );
    return { ids: members.slice(0, limit).map(idOf), more: members.length > limit, last: members[limit - 1] };
  };

  const dueOf = (name: string, now: number): Promise<string[]> =>
    ask(name, (client, key) => client.zrangebyscore(key, "-inf", now, "LIMIT", 0, mostDue));

  return {
    create: (record, limits) => create(record, limits?.maxQueued ?? Infinity),
    get: read,

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

    ids: async (status, limit, from = 0) => {
      const last = limit === undefined ? -1 : from + limit - 1;
      const members = await ask(`st:${status}`, (client, key) =>
        client.zrange(key, String(from), String(last)),
      );
      return members.map(idOf);
    },

    unsettled: async () => {
      const all = await ask("unsettled", (client, key) => client.hgetall(key));
      return Object.entries(all)
        .flatMap(([id, value]) => runOf(id, value) ?? [])
        .toSorted((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1))
        .map(({ created: _c, ...run }) => run);
    },

    counts: async () => {
      const counted = await Promise.all(
        jobStatuses.map(async (status) => {
          const count = await ask(`st:${status}`, (client, key) => client.zcard(key));
          return [status, count] as const;
        }),
      );
      return Object.fromEntries(counted) as Record<JobStatus, number>;
    },

    findBySession: async (sessionId) => {
      const [newest] = await ask(`session:${sessionId}`, (client, key) => client.zrevrange(key, 0, 0));
      return newest === undefined ? null : await read(idOf(newest));
    },
    // Both are in order of creation, all with one score.
    queuedInSession: async (sessionId) => {
      const queued = kv.jobKey("st:queued");
      const members = await ask(`session:${sessionId}`, (client, key) => client.zinter(2, [queued, key]));
      return members.map(idOf);
    },

    usesOfWorktree: async (worktreeId) => {
      if (!isJobId(worktreeId)) return [];
      const [others, maker] = await Promise.all([
        ask(`worktree:${worktreeId}`, (client, key) => client.hgetall(key)),
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
      ask(`worktrees:${podName}`, (client, key) => client.zrangebyscore(key, "-inf", endedBefore)),

    count: async (what) => {
      await ask("tally", (client, key) => client.hincrby(key, what, 1));
    },
    tally: async () => {
      const [lost, recovered] = await ask("tally", (client, key) => client.hmget(key, "lost", "recovered"));
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
