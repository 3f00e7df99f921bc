import { expect, test } from "vitest";
import type { Repos, WorktreeOnDisk } from "../../src/repos/repos.ts";
import { createLog } from "../../src/lib/log.ts";
import { openRedisJobStore } from "../open-stores.ts";
import { createRedisLocks } from "../../src/store/redis-leases.ts";
import type { Locks } from "../../src/store/locks.ts";
import { openRedisRecords } from "../../src/store/redis-records.ts";
import { createWorktreeStore, worktreeKind } from "../../src/store/worktree-store.ts";
import type { JobStore } from "../../src/store/job-store.ts";
import type { WorktreeStore } from "../../src/store/worktree-store.ts";
import type { Dependencies } from "../../src/worktrees/dependencies.ts";
import { createWorktrees } from "../../src/worktrees/worktrees.ts";
import { openKv } from "../kv.ts";
import { sampleRecord } from "../ports/job-record-sample.ts";
import { sampleWorktree } from "../ports/worktree-record-sample.ts";
import { startRedis } from "../redis.ts";

const log = createLog("silent", (text) => text);

/** Holds somebody up before one of the calls that he makes, counted from 0. */
const createHold = (before: number) => {
  const reached = Promise.withResolvers<"held">();
  const refused = Promise.withResolvers<"refused">();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let calls = 0;
  return {
    reached: reached.promise,
    /** Somebody else had a lock. */
    refused: refused.promise,
    release,
    calls: () => calls,
    wrap: <Port extends object>(port: Port): Port =>
      new Proxy(port, {
        get: (target, name, receiver) => {
          const method: unknown = Reflect.get(target, name, receiver);
          if (typeof method !== "function") return method;
          return async (...args: unknown[]): Promise<unknown> => {
            calls += 1;
            if (calls - 1 === before) {
              reached.resolve("held");
              await released;
            }
            const answer = await (method as (...given: unknown[]) => Promise<unknown>)(...args);
            if (name === "take" && answer === null) refused.resolve("refused");
            return answer;
          };
        },
      }),
  };
};

type Hold = ReturnType<typeof createHold>;

type Stores = { jobs: JobStore; records: WorktreeStore; locks: Locks };

const instance = (
  podName: string,
  { jobs, records, locks }: Stores,
  { hold, disk }: { hold: Hold; disk: Set<string> },
) => {
  const survey = (id: string): WorktreeOnDisk => ({
    worktree: {
      worktreeId: id,
      path: `/worktrees/${id}`,
      gitDir: "",
      ownDir: "",
      cacheDir: "",
      repoUrl: "/srv/app.git",
      repoKey: "0123456789ab",
      branch: `service/wt-${id.slice(0, 8)}`,
      baseRef: "main",
      baseSha: null,
      warnings: [],
    },
    ready: true,
    changed: "",
    directoryExists: true,
    since: new Date(0),
    instance: podName,
    isThrowaway: false,
    kept: [],
    ignored: [],
  });
  const repos: Partial<Repos> = {
    expireRefs: async () => 0,
    readWorktree: async (id) => (podName === "a" && disk.has(id) ? survey(id) : null),
    listWorktreeIds: async () => (podName === "a" ? [...disk] : []),
    worktreePath: (id) => `/worktrees/${id}`,
    isPushed: async () => true,
    ignoredStill: async () => [],
    worktreeSize: async () => 0,
    removeWorktree: async ({ worktreeId }) => void disk.delete(worktreeId),
  };
  const deps: Partial<Dependencies> = {
    jobs: hold.wrap(jobs),
    records: hold.wrap(records),
    repos: repos as Repos,
    isAlive: async () => true,
    endJob: async (id) => {
      await jobs.update(
        id,
        { status: ["queued"] },
        { status: "cancelled", ended_at: new Date().toISOString() },
      );
    },
    locks: hold.wrap(locks),
    settings: {
      podName,
      shared: true,
      worktreeTtl: 86_400,
      preparedWorktreeTtl: 86_400,
      salvageTtl: 7_776_000,
      maxParallelJobs: 1,
      maxQueuedJobs: 1,
      gitTimeout: 1,
    },
    now: () => new Date(),
    redact: (text) => text,
    log,
    closing: new AbortController().signal,
  };
  return createWorktrees(deps as Dependencies);
};

const redis = await startRedis();
const first = await openKv(redis.url);
const second = await openKv(redis.url, first.prefix);
const stores = (kv: typeof first, podName: string): Stores => ({
  jobs: openRedisJobStore({ kv, podName, log }),
  records: createWorktreeStore(openRedisRecords(worktreeKind, { kv, now: () => new Date(), log })),
  locks: createRedisLocks({ kv, leaseSeconds: 60, owner: { podName, epoch: "1" } }),
});
const [ofA, ofB] = [stores(first, "a"), stores(second, "b")];

/** A worktree on the disk of `a`: a prepared one, or that of a job. */
const makeWorktree = async (kind: "prepared" | "of a job", disk: Set<string>): Promise<string> => {
  if (kind === "prepared") {
    const record = sampleWorktree({ status: "ready", pod_name: "a", repo_url: "/srv/app.git" });
    await ofA.records.create(record);
    disk.add(record.worktree_id);
    return record.worktree_id;
  }
  const at = new Date().toISOString();
  const job = sampleRecord({ status: "succeeded", pod_name: "a", created_at: at, ended_at: at });
  const stands = { worktree_id: job.id, worktree_path: `/worktrees/${job.id}`, branch: "service/x" };
  await ofA.jobs.create({ ...job, ...stands });
  disk.add(job.id);
  return job.id;
};

/** One of the two is held up before its call `i` until the other is done, or waits for it. */
const race = async (kind: "prepared" | "of a job", held: "remover" | "submitter", i: number) => {
  const disk = new Set<string>();
  const id = await makeWorktree(kind, disk);
  const [slow, quick] = [createHold(i), createHold(Number.POSITIVE_INFINITY)];
  const [removerHold, submitterHold] = held === "remover" ? [slow, quick] : [quick, slow];
  const a = instance("a", ofA, { hold: removerHold, disk });
  const b = instance("b", ofB, { hold: submitterHold, disk });
  const remove = async (): Promise<boolean> =>
    (await a.cleanup({ paths: id, max_age_hours: 0, force: false, dry_run: false }, {})).removed === 1;
  const submit = (): Promise<boolean> =>
    b
      .join(id, async ({ branch, boundTo }) => {
        const over = { worktree_id: id, branch, bound_to: boundTo, created_at: new Date().toISOString() };
        const made = await submitterHold.wrap(ofB.jobs).create(sampleRecord(over));
        if ("refused" in made) throw new Error(made.refused);
      })
      .then(
        () => true,
        () => false,
      );
  const [first, second] = held === "remover" ? [remove, submit] : [submit, remove];
  const slowly = first();
  await Promise.race([slow.reached, slowly]);
  const quickly = second();
  await Promise.race([quickly, quick.refused]);
  slow.release();
  const answers = await Promise.all([slowly, quickly]);
  const [removed, accepted] = held === "remover" ? answers : answers.toReversed();
  const waiting = (await ofA.jobs.usesOfWorktree(id)).filter(({ status }) => status === "queued");
  const known = (await b.get(id).catch(() => null))?.status ?? null;
  // A cleanup looks at all that are known.
  await ofA.records.remove(id);
  const isLate = slow.calls() > i;
  return { removed, accepted, stands: disk.has(id), waits: waiting.length, known, isLate };
};

test.each([
  ["prepared", "remover"],
  ["prepared", "submitter"],
  ["of a job", "remover"],
  ["of a job", "submitter"],
] as const)(
  "a worktree %s that one instance removes while another accepts a job into it goes or takes the job, whichever step of the %s comes late",
  { timeout: 240_000 },
  async (kind, held) => {
    const seen = new Set<string>();
    for (let i = 0, isLate = true; isLate; i += 1) {
      const { removed, accepted, stands, waits, known, ...end } = await race(kind, held, i);
      // A job waits exactly where its submission was accepted, and only in a worktree that stands and is known to.
      const right = stands !== removed && waits === (accepted ? 1 : 0) && removed !== accepted;
      const told = stands ? known === "in_use" : known !== "ready" && known !== "in_use";
      expect({ i, removed, accepted, stands, waits, known, right, told }).toMatchObject({
        right: true,
        told: true,
      });
      seen.add(accepted ? "accepted" : "removed");
      ({ isLate } = end);
    }
    expect([...seen].toSorted()).toEqual(["accepted", "removed"]);
  },
);
