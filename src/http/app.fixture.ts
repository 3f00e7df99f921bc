import { answerTo } from "../jobs/answer.ts";
import { jobOptions } from "../contract/run-options.ts";
import { randomUUID } from "node:crypto";
import type { z } from "zod";
import { ServiceError } from "../contract/errors.ts";
import type { JobEvent } from "../contract/event.ts";
import { isFinal, type Job } from "../contract/job.ts";
import type { Handlers, Operation, RequestContext } from "../contract/operation.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { createApp, type AppDependencies } from "./app.ts";
import { exampleOf } from "./openapi.ts";

const exampleOutput = <Name extends keyof Operations>(name: Name): z.output<Operations[Name]["output"]> => {
  const { output, example }: Operation = operations[name];
  return exampleOf(output, example) as z.output<Operations[Name]["output"]>;
};

export const exampleJobs: Record<"queued" | "succeeded", Job> = {
  queued: exampleOutput("run_task").job,
  succeeded: exampleOutput("get_job").job,
};

/** The app over handlers that keep jobs in memory, for the tests of this room and of the client. */
export const createTestApp = (
  overrides: Partial<AppDependencies> & Partial<AppDependencies["settings"]> = {},
) => {
  const jobs = new Map<string, Job>();
  const contexts: RequestContext[] = [];
  const lines: Record<string, unknown>[] = [];
  const events = createTestEvents();
  const closing = new AbortController();
  const log = Object.fromEntries(
    ["debug", "info", "warn", "error"].map((level) => [
      level,
      (line: object, message: string) => void lines.push({ ...line, level, message }),
    ]),
  );
  const { apiKeys = [], host = "127.0.0.1", agentMode = true, bridgeUrl = null, ...rest } = overrides;
  const app = createApp({
    handlers: memoryHandlers(jobs, contexts),
    events,
    changes: async function* () {},
    openFile: async () => null,
    settings: { host, apiKeys, agentMode, bridgeUrl },
    readiness: async () => ({ ready: true, reasons: [], checks: [], companions: [] }),
    metrics: async () => ({ contentType: "text/plain; version=0.0.4; charset=utf-8", body: "jobs 0\n" }),
    service: { name: "svc", version: "1.2.3" },
    log: log as unknown as AppDependencies["log"],
    newRequestId: randomUUID,
    closing: closing.signal,
    ...rest,
  });
  const end = (id: string): void => {
    const job = jobs.get(id);
    if (job !== undefined) jobs.set(id, { ...job, status: "succeeded", ended_at: new Date().toISOString() });
    events.finish(id);
  };
  return { app, jobs, contexts, lines, events, closing, end };
};

export const memoryHandlers = (
  jobs: Map<string, Job>,
  contexts: RequestContext[] = [],
): Handlers<Operations> => {
  const found = (id: string): Job => {
    const job = jobs.get(id);
    if (job === undefined) throw new ServiceError("job_not_found", `There is no job ${id}`);
    return job;
  };
  return {
    sync_companions: async ({ target }) => ({ [target === "all" ? "hooks" : target]: "skipped (no url)" }),
    run_task: async (input, context) => {
      contexts.push(context);
      const {
        wait,
        create_repo: _create,
        private: _private,
        file_path: _path,
        worktree_id,
        options,
        repositories: _repositories,
        ...asked
      } = input;
      const job: Job = {
        ...exampleJobs.queued,
        ...asked,
        options: jobOptions(options),
        id: randomUUID(),
        profile: asked.profile || "code",
      };
      if (worktree_id !== "")
        throw new ServiceError("worktree_not_found", `There is no worktree ${worktree_id}`);
      jobs.set(job.id, { ...job, session_id: null });
      if (wait)
        await new Promise((_, reject) =>
          context.signal.addEventListener("abort", () => reject(new Error("left"))),
        );
      return { success: true, job: found(job.id) };
    },
    get_job: async ({ job_id }) => ({ success: true, job: found(job_id) }),
    list_jobs: async ({ limit, status, session_id }) => {
      const fitting = [...jobs.values()]
        .filter((job) => status === "" || job.status === status)
        .filter((job) => session_id === "" || job.session_id === session_id)
        .slice(0, limit);
      return { success: true, count: fitting.length, jobs: fitting, next_cursor: null };
    },
    answer_job: async (input) => {
      const job = found(input.job_id);
      answerTo(job.waiting, input);
      jobs.set(job.id, { ...job, waiting: null });
      return { success: true, job: found(job.id) };
    },
    message_job: async (input) => ({ ...exampleOutput("message_job"), job: found(input.job_id) }),
    take_back_message: async () => exampleOutput("take_back_message"),
    cancel_job: async ({ job_id }) => {
      const job = found(job_id);
      if (!isFinal(job.status)) jobs.set(job_id, { ...job, status: "cancelled" });
      return { success: true, job: found(job_id) };
    },
    wait_for_job: async ({ job_id }) => ({ success: true, job: found(job_id) }),
    list_files: async ({ job_id }) => ({ ...exampleOutput("list_files"), job_id: found(job_id).id }),
    get_diff: async ({ job_id }) => ({ ...exampleOutput("get_diff"), job_id: found(job_id).id }),
    list_profiles: async () => exampleOutput("list_profiles"),
    prepare_worktree: async () => exampleOutput("prepare_worktree"),
    get_worktree: async () => exampleOutput("get_worktree"),
    list_worktrees: async () => exampleOutput("list_worktrees"),
    cleanup_worktrees: async () => exampleOutput("cleanup_worktrees"),
    clear_environments: async () => exampleOutput("clear_environments"),
    get_disk_usage: async () => exampleOutput("get_disk_usage"),
    get_usage: async () => exampleOutput("get_usage"),
    list_secrets: async () => exampleOutput("list_secrets"),
    set_secret: async () => exampleOutput("set_secret"),
    remove_secret: async () => exampleOutput("remove_secret"),
    list_instances: async () => exampleOutput("list_instances"),
    agent_completions: async ({ uuid, message, wait }) => {
      const output = exampleOutput("agent_completions");
      if (!wait)
        return { ...output, status: "queued", uuid, poll_url: `/completions/${uuid}`, completion: null };
      if (message !== "fail") return { ...output, uuid };
      return { ...output, success: false, status: "failed", uuid, error: "It failed", code: "agent_failed" };
    },
    get_completion: async ({ uuid }) => {
      if (uuid !== exampleOutput("get_completion").completion.uuid)
        throw new ServiceError("completion_not_found", `There is no completion ${uuid}`);
      return exampleOutput("get_completion");
    },
    list_completions: async () => exampleOutput("list_completions"),
    cancel_completion: async () => exampleOutput("cancel_completion"),
    get_visibility: async () => exampleOutput("get_visibility"),
    set_visibility: async () => exampleOutput("set_visibility"),
  };
};

/** An event log in memory; `reading` counts the readers that have not ended. */
const createTestEvents = () => {
  const logs = new Map<string, { events: JobEvent[]; done: boolean; wake: Set<() => void> }>();
  const counters = { reading: 0, delivered: 0 };
  const logOf = (id: string) => {
    const log = logs.get(id) ?? { events: [], done: false, wake: new Set() };
    logs.set(id, log);
    return log;
  };
  const wakeAll = ({ wake }: { wake: Set<() => void> }): void => wake.forEach((resume) => resume());

  return {
    counters,
    append: (id: string, text: string): void => {
      const log = logOf(id);
      const seq = log.events.length + 1;
      log.events.push({ seq, at: new Date().toISOString(), attempt: 1, type: "text", block: 0, text });
      wakeAll(log);
    },
    finish: (id: string): void => {
      const log = logOf(id);
      log.done = true;
      wakeAll(log);
    },
    async *read(id: string, after: number, signal: AbortSignal): AsyncGenerator<JobEvent, void> {
      const log = logOf(id);
      counters.reading += 1;
      try {
        for (let position = after; !signal.aborted;) {
          const event = log.events[position];
          if (event !== undefined) {
            position += 1;
            counters.delivered += 1;
            yield event;
          } else if (log.done) return;
          else await woken(log.wake, signal);
        }
      } finally {
        counters.reading -= 1;
      }
    },
  };
};

const woken = async (wake: Set<() => void>, signal: AbortSignal): Promise<void> => {
  const { promise, resolve } = Promise.withResolvers<void>();
  wake.add(resolve);
  signal.addEventListener("abort", () => resolve());
  await promise;
  wake.delete(resolve);
};
