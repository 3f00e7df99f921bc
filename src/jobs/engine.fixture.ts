import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { expect } from "vitest";
import { RunTaskInput } from "../contract/job.ts";
import { MessageInput } from "../contract/message.ts";
import { createLog } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { createRetries } from "../lib/retries.ts";
import { afterFile } from "../../test/cleanup.ts";
import { openFilesEventLog, openFilesJobStore } from "../../test/open-stores.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import type { Execute, SettleLost } from "./run.ts";
import { applyRetention } from "./retention.ts";
import { createJobs } from "./jobs.ts";
import { createMessages } from "./messages.ts";
import { createSubmit } from "./submit.ts";
import { createLocalQueue } from "./local-queue.ts";
import { queueDue, queueWaiting, recover } from "./recovery.ts";
import { createNotifier } from "../lib/notifier.ts";
import type { JobRecord } from "../store/job-record.ts";
import { createLocalLocks, lockOf } from "../store/locks.ts";
import { openOutcomeSpool } from "./outcomes.ts";
import { createWorker, type Credential } from "./worker.ts";
import type { TaskFiles } from "../store/task-files.ts";

const log = createLog("silent", (text) => text);
const caller = { signal: new AbortController().signal, principal: "open" };
export const never = new AbortController().signal;
export const succeed: Execute = async () => ({ kind: "succeeded", patch: { exit_code: 0 } });

/** Runs until it is interrupted, then says it failed, as the runner does. */
export const untilInterrupted: Execute = (_record, run) =>
  new Promise((resolve) => {
    run.signal.addEventListener("abort", () => {
      resolve({
        kind: run.signal.reason === "shutdown" ? "requeue" : "failed",
        patch: { exit_code: 143, failure_reason: "internal" },
      });
    });
  });

type Options = {
  execute?: Execute;
  settleLost?: SettleLost;
  directory?: string;
  concurrency?: number;
  now?: () => Date;
  removeWorktree?: () => Promise<void>;
  /** Instance on whose disk the worktree of an ended job is. */
  holder?: string | null;
  /** Seconds that a question is held. */
  questionLive?: number;
  credential?: Partial<Credential>;
  taskFiles?: Pick<TaskFiles, "put" | "remove">;
};

/** The engine over real files, with the execution of a job given by the test. */
export const startEngine = async ({
  execute = succeed,
  settleLost = async () => ({ requeue: false, patch: {} }),
  directory,
  concurrency = 3,
  now = () => new Date(),
  removeWorktree = async () => undefined,
  holder = null,
  questionLive = 120,
  credential = {},
  taskFiles = { put: async () => undefined, remove: async () => undefined },
}: Options = {}) => {
  const jobsDir = directory ?? (await temporaryDirectory());
  const store = await openFilesJobStore(jobsDir, log);
  const events = openFilesEventLog(join(jobsDir, "events"), { jobs: store, now, log });
  let isOver = false;
  const queue = createLocalQueue({ concurrency, onError: (error) => isOver || expect.fail(String(error)) });
  // A job that no test waits for must not be tried again for ever, in a directory that is removed.
  afterFile(() => {
    isOver = true;
    queue.stop();
  });
  const jobEnds = createNotifier();
  const ended: JobRecord[] = [];
  const onEnded = (record: JobRecord): void => void ended.push(record);
  const spool = await openOutcomeSpool(join(jobsDir, "spool"), log);
  const locks = createLocalLocks();
  const worker = createWorker({
    store,
    events,
    locks,
    spool,
    queue,
    jobEnds,
    execute,
    onEnded,
    instance: { podName: "pod", epoch: randomUUID() },
    credential: { digest: "one", canChange: async () => false, ...credential },
    settings: { lostInstanceGrace: 300, questionLive, maxParallelJobs: concurrency },
    now,
    redact: createRedactor(["hunter2-secret"]),
    log,
  });
  const interrupt = (record: JobRecord): void => worker.interrupt(record);
  const jobs = createJobs({ store, events, queue, jobEnds, onEnded, now, log, interrupt });
  const accept = createSubmit({
    store,
    queue,
    settings: { jobTtl: 60, maxQueuedJobs: 5 },
    now,
    newId: randomUUID,
    taskFiles,
    check: async (input) => ({
      repoUrl: input.repo_url,
      profile: { name: "code", model: "sonnet", retryLost: false, rule: "requested" },
    }),
    instanceWith: async ({ ended_at }) => (ended_at === null ? null : holder),
    admit: async () => undefined,
    joinWorktree: (id, join) =>
      join({ id, repoUrl: "", baseRef: "main", branch: "service/wt-1", boundTo: null }),
  });
  const messages = createMessages({ store, jobEnds, get: jobs.get, submit: accept, now, newId: randomUUID });
  const submit = (over: Partial<RunTaskInput> = {}, context = {}) =>
    accept(RunTaskInput.parse({ task: "Fix it", ...over }), { ...caller, ...context });
  const retries = createRetries();
  const round = (signal = never) =>
    applyRetention(
      {
        store,
        events,
        queue,
        jobEnds,
        onEnded,
        worktreeTtl: 30,
        removeWorktree,
        removeConfig: async () => undefined,
        book: async () => undefined,
        lockWorktree: (id) => locks.take(lockOf.worktree(id)),
        locationOf: () => "here",
        retries,
        now,
        log,
      },
      signal,
    );
  return {
    directory: jobsDir,
    store,
    events,
    queue,
    worker,
    jobs,
    jobEnds,
    onEnded,
    now,
    log,
    submit,
    takeBack: (job_id: string, message_id: string) => messages.takeBack({ job_id, message_id }, caller),
    say: (job_id: string, text: string, over: Partial<MessageInput> = {}, context = {}) =>
      messages.say(MessageInput.parse({ job_id, text, ...over }), { ...caller, ...context }),
    round,
    work: () => queue.start(worker.work),
    /** As each round does. */
    resumeDue: () => queueDue({ store, queue, now }),
    spool,
    /** Each end as it was announced. */
    ended,
    recover: () =>
      recover({
        store,
        events,
        queue,
        spool,
        jobEnds,
        onEnded,
        settleLost,
        wasOwn: () => true,
        afterwards: [() => queueWaiting({ store, queue, now })],
        signal: never,
        now,
        log,
      }),
  };
};
