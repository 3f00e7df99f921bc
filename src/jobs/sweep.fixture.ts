import { randomUUID } from "node:crypto";
import { RunTaskInput } from "../contract/job.ts";
import { createNotifier } from "../lib/notifier.ts";
import type { Log } from "../lib/log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import { createRedisInstances } from "../store/instances.ts";
import { openFilesEventLog, openRedisJobStore } from "../../test/open-stores.ts";
import { openKv } from "../../test/kv.ts";
import type { TestRedis } from "../../test/redis.ts";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { newRecord } from "./new-record.ts";
import type { Queue, QueueEntry } from "./queue.ts";
import { createPresence } from "./membership.ts";
import { createSweep } from "./sweep.ts";

/** As short as it may be, s. */
const lease = 1;

type Options = {
  /** Over what the store does. */
  store?: (real: JobStore) => Partial<JobStore>;
  lostInstanceGrace?: number;
  backSince?: () => number;
  isEnding?: boolean;
};

/** The sweep of the instance `here` over a real store, with jobs as the test makes them, and a queue that notes what it is told. */
export const startSweep = async (
  redis: TestRedis,
  { store: over = () => ({}), lostInstanceGrace = 1, backSince = () => 0, isEnding = false }: Options = {},
) => {
  const kv = await openKv(redis.url);
  const warnings: string[] = [];
  const log: Log = {
    debug: () => undefined,
    info: () => undefined,
    warn: (...said: unknown[]) => void warnings.push(JSON.stringify(said)),
    error: () => undefined,
  };
  const real = openRedisJobStore({ kv, podName: "here", log });
  const store: JobStore = { ...real, ...over(real) };
  const events = openFilesEventLog(await temporaryDirectory(), { jobs: store, now: () => new Date(), log });
  const added: QueueEntry[] = [];
  const queue = {
    add: async (...entries: QueueEntry[]) => void added.push(...entries),
    remove: async () => undefined,
  } satisfies Partial<Queue>;
  const own = new Set<string>();
  const epoch = randomUUID();
  const instanceOf = (name: string) =>
    createRedisInstances({ kv, name, self: null, leaseSeconds: lease, log });
  const instances = instanceOf("here");
  const presence = createPresence({
    instances,
    settings: { podName: "here", instanceLease: lease },
    backSince,
  });
  const facts = (name: string) => ({
    name,
    epoch: randomUUID(),
    version: "1",
    started_at: new Date().toISOString(),
    running: 0,
    max_parallel_jobs: 1,
    turns: 0,
    draining: false,
    address: null,
    agent_mode: false,
  });
  const ownFacts = facts("here");
  await presence.join(ownFacts);
  const renewals = setInterval(() => void presence.renew(ownFacts).catch(() => undefined), 200);
  afterFile(() => clearInterval(renewals));
  const sweep = createSweep({
    store,
    events,
    queue,
    presence,
    jobEnds: createNotifier(),
    onEnded: () => undefined,
    settings: { podName: "here", lostInstanceGrace },
    epoch,
    credential: { digest: "own" },
    ownRuns: () => (isEnding ? null : own),
    now: () => new Date(),
    log,
  });

  const make = async (patch: Partial<JobRecord>): Promise<string> => {
    const fresh = newRecord({
      id: randomUUID(),
      now: new Date(Date.now() - 60_000),
      input: RunTaskInput.parse({ task: "Fix it" }),
      repoUrl: "",
      profile: { name: "code", model: "sonnet", retryLost: false, rule: "requested" },
      ttlSeconds: 3600,
      idempotency: null,
      principal: "open",
      worktree: null,
      boundTo: null,
    });
    const record = { ...fresh, warnings: [], ...patch };
    await real.create(record);
    return record.id;
  };

  const get = async (id: string): Promise<JobRecord> => {
    const record = await real.get(id);
    if (record === null) throw new Error(`there is no job ${id}`);
    return record;
  };

  return {
    kv,
    sweep,
    presence,
    store: real,
    own,
    epoch,
    added,
    warnings,
    make,
    get,
    instanceOf,
    facts,
    running: (podName: string, of: string, patch: Partial<JobRecord> = {}): Promise<string> =>
      make({
        status: "running",
        pod_name: podName,
        instance_epoch: of,
        attempt: 1,
        unsettled: true,
        started_at: new Date().toISOString(),
        ...patch,
      }),
    /** Sweeps, as an instance does all the time, until the job is as is wanted. */
    sweepUntil: (id: string, holds: (record: JobRecord) => boolean, what: string): Promise<JobRecord> =>
      until(
        async () => {
          await sweep.round().catch(() => undefined);
          const record = await get(id);
          return holds(record) ? record : null;
        },
        { what: `the job ${what}` },
      ),
  };
};

/** A process that is recorded of an agent. */
export const someProcess = { pid: 1, start_time: "1", boot_id: "a boot" };
