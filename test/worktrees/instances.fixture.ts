import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { makeRepos, makeWorktree, type TestRepos } from "../../src/repos/repos.fixture.ts";
import { endPatch } from "../../src/jobs/settle.ts";
import { createLog } from "../../src/lib/log.ts";
import { openFilesJobStore } from "../open-stores.ts";
import { createLocalLocks } from "../../src/store/locks.ts";
import { openFilesRecords } from "../../src/store/files-records.ts";
import { createWorktreeStore, worktreeKind } from "../../src/store/worktree-store.ts";
import type { JobRecord } from "../../src/store/job-record.ts";
import type { JobStore } from "../../src/store/job-store.ts";
import type { WorktreeStore } from "../../src/store/worktree-store.ts";
import type { Dependencies } from "../../src/worktrees/dependencies.ts";
import { createWorktrees, type Worktrees } from "../../src/worktrees/worktrees.ts";
import { sampleRecord } from "../ports/job-record-sample.ts";

const log = createLog("silent", (text) => text);

const context = { signal: new AbortController().signal, principal: null } as never;

/** Instances with a disk each, one file system with the cached clones, one store. Their jobs run nowhere: tests say what became of them. */
export const makeCluster = async () => {
  const { root, remote, repo } = await makeWorktree();
  const jobs = await openFilesJobStore(join(root, "jobs"), log);
  const now = (): Date => new Date();
  const directory = join(root, "records");
  const records = createWorktreeStore(await openFilesRecords(worktreeKind, { directory, now, log }));
  const dead = new Set<string>();
  const clock = { ahead: 0 };
  const locks = createLocalLocks();

  /** `stores`: the instance's view of the store, to hold it up. */
  const start = async (
    podName: string,
    stores: { jobs: JobStore; records: WorktreeStore } = { jobs, records },
  ): Promise<Started> => {
    const place = await makeRepos({
      podName,
      reposRoot: join(root, "repos"),
      worktreeRoot: join(root, podName),
    });
    const deps: Dependencies = {
      ...stores,
      repos: place.repos,
      isAlive: async (name) => !dead.has(name),
      endJob: async (id, reason, signal) => {
        const job = await jobs.get(id);
        if (job === null) return;
        const ended = { ...endPatch(job, new Date()), status: "cancelled" as const, error: reason };
        await jobs.update(id, { status: ["queued", "running"] }, ended);
        if ((await jobs.get(id))?.unsettled === true) signal.throwIfAborted();
      },
      locks,
      endOrphans: async () => undefined,
      admit: async () => undefined,
      settings: {
        podName,
        shared: true,
        worktreeTtl: 86_400,
        preparedWorktreeTtl: 604_800,
        salvageTtl: 7_776_000,
        maxParallelJobs: 2,
        maxQueuedJobs: 2,
        gitTimeout: 60,
      },
      now: () => new Date(Date.now() + clock.ahead),
      newId: randomUUID,
      redact: (text) => text,
      log,
      closing: new AbortController().signal,
    };
    return { ...place, podName, deps, worktrees: createWorktrees(deps) };
  };

  const store = async (over: Partial<JobRecord>): Promise<JobRecord> => {
    const made = await jobs.create(sampleRecord({ repo_url: remote.url, ...over }));
    if ("refused" in made) throw new Error(made.refused);
    return made.record;
  };

  return {
    repo,
    remote,
    jobs,
    records,
    dead,
    clock,
    start,
    store,
    /** Prepares a worktree on an instance. */
    prepare: ({ worktrees }: Started) => worktrees.prepare({ repo_url: remote.url, base_ref: "" }, context),
    /** Submits a job into a worktree by way of an instance. */
    submit: ({ worktrees }: Started, id: string): Promise<JobRecord> =>
      worktrees.join(id, ({ branch, boundTo }) => store({ worktree_id: id, branch, bound_to: boundTo })),
    /** A job with a worktree of its own that an instance has run; `over` says how it stands. */
    ran: async ({ repos, podName }: Started, over: Partial<JobRecord> = {}): Promise<JobRecord> => {
      const queued = await store({});
      const worktree = await repos.addWorktree({
        repo,
        worktreeId: queued.id,
        jobId: queued.id,
        branch: `service/${queued.id.slice(0, 8)}`,
        baseRef: "main",
        signal,
      });
      const record = await jobs.update(
        queued.id,
        { status: ["queued"] },
        {
          status: "succeeded",
          ...endPatch(queued, new Date()),
          worktree_id: queued.id,
          worktree_path: worktree.path,
          branch: worktree.branch,
          pod_name: podName,
          ...over,
        },
      );
      if (record === null) throw new Error("the job is gone");
      return record;
    },
  };
};

const signal = new AbortController().signal;

export type Started = TestRepos & { podName: string; deps: Dependencies; worktrees: Worktrees };
