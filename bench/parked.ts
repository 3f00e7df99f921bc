import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { loadSettings } from "../src/config/settings.ts";
import { RunTaskInput } from "../src/contract/job.ts";
import { newRecord } from "../src/jobs/new-record.ts";
import { openOutcomeSpool } from "../src/jobs/outcomes.ts";
import { queueDue } from "../src/jobs/recovery.ts";
import type { Execute } from "../src/jobs/run.ts";
import { createWorker } from "../src/jobs/worker.ts";
import { createLog } from "../src/lib/log.ts";
import { createRedactor } from "../src/lib/redact.ts";
import { openStores } from "../src/main/stores.ts";
import type { JobRecord } from "../src/store/job-record.ts";
import { until } from "../test/until.ts";
import { atMost, median, type Figure } from "./statistics.ts";
import { withDirectory } from "./workbench.ts";

const count = 1000;
const rounds = 3;

/** What a job costs that is parked for a usage limit, or held for one, beside one that is not: an agent that does nothing. */
export const parked = async (): Promise<Figure[]> => {
  const taken: Record<Kind, number[]> = { plain: [], parked: [], held: [] };
  for (let round = 0; round < rounds; round += 1)
    for (const kind of ["plain", "parked", "held"] as const) taken[kind].push(await withDirectory(run(kind)));
  const plain = median(taken.plain);
  return (["parked", "held"] as const).map((kind) => {
    const ours = median(taken[kind]);
    const value = ours / plain;
    return {
      what: `${count} jobs ${kind} for a usage limit, and run after it: time of each`,
      ours: `${ours.toFixed(2)} ms`,
      baseline: `${plain.toFixed(2)} ms (neither)`,
      value,
      unit: "x",
      target: "≤ 2.5 ×",
      met: atMost(value, 2.5),
    };
  });
};

type Kind = "plain" | "parked" | "held";

/** Milliseconds of each job, without the time until the limit is over. */
const run =
  (kind: Kind) =>
  async (home: string): Promise<number> => {
    await mkdir(join(home, "jobs"));
    const env = { SERVICE_JOBS_DIR: join(home, "jobs"), SERVICE_POD_NAME: "bench" };
    const { settings } = loadSettings({ env, home });
    const log = createLog("error", (text) => text);
    const epoch = randomUUID();
    const stores = await openStores({ settings, epoch, log });
    let ahead = 0;
    const now = (): Date => new Date(Date.now() + ahead);
    const resets = Date.now() + 3_600_000;
    const worker = createWorker({
      store: stores.jobs,
      events: stores.events,
      locks: stores.locks,
      spool: await openOutcomeSpool(join(home, "spool"), log),
      queue: stores.queue,
      jobEnds: stores.jobEnds,
      execute: kind === "parked" ? meetsLimit(resets) : async () => ({ kind: "succeeded", patch: {} }),
      onEnded: () => undefined,
      instance: { podName: "bench", epoch },
      credential: { digest: "own", canChange: async () => false },
      settings,
      now,
      redact: createRedactor([]),
      log,
    });
    if (kind === "held")
      await stores.jobs.create({ ...record(), status: "running", ...atLimit(resets, "own") });
    const ids = await Promise.all(
      Array.from(
        { length: count },
        async () => (await stores.jobs.create(record())) as { record: JobRecord },
      ),
    );
    await stores.queue.add(...ids.map(({ record: { id } }) => ({ id, boundTo: null })));
    const begun = performance.now();
    stores.queue.start(worker.work);
    const due = async (): Promise<number> => {
      let found = 0;
      for (let skip = 0; ; skip += 500) {
        const page = await stores.jobs.due("resumable", resets, skip);
        found += page.length;
        if (page.length < 500) return found;
      }
    };
    if (kind !== "plain") {
      await until(async () => (await due()) >= count, { seconds: 120, what: "the jobs to wait" });
      ahead = 3_600_000;
    }
    await until(
      async () => {
        if (kind !== "plain") await queueDue({ store: stores.jobs, queue: stores.queue, now });
        return (await stores.jobs.counts()).succeeded >= count;
      },
      { seconds: 120, what: "the jobs to end" },
    );
    const took = (performance.now() - begun) / count;
    stores.queue.stop();
    await worker.stop();
    await stores.close();
    return took;
  };

const atLimit = (resets: number, credential: string): Pick<JobRecord, "waiting" | "limit"> => {
  const [asked_at, end] = [Date.now(), resets].map((time) => new Date(time).toISOString()) as [
    string,
    string,
  ];
  return {
    waiting: { kind: "limit", id: "limit_1", questions: [], plan: null, asked_at, until: end },
    limit: { credential, waits: 1, since: asked_at },
  };
};

/** The credential is not the worker's: no other job is held. */
const meetsLimit =
  (resets: number): Execute =>
  async ({ limit }) =>
    limit === null
      ? { kind: "parked", deferred: false, patch: atLimit(resets, "other") }
      : { kind: "succeeded", patch: {} };

const record = (): JobRecord =>
  newRecord({
    id: randomUUID(),
    now: new Date(),
    input: RunTaskInput.parse({ task: "Do nothing" }),
    repoUrl: "",
    profile: { name: "code", model: "sonnet", retryLost: false, rule: "requested" },
    ttlSeconds: 86_400,
    idempotency: null,
    principal: "open",
    worktree: null,
    boundTo: null,
  });
