import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ErrorCode } from "../../src/contract/errors.ts";
import type { Operations } from "../../src/contract/operations.ts";
import { inFiles, requireFormat } from "../../src/store/format.ts";
import type { Question } from "../doors.ts";
import { ended } from "../ports/job-record-sample.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { slowGit } from "../worktrees/worktree-world.ts";

/** One question and what every door must answer. */
export type Row = {
  operation: keyof Operations;
  outcome: "success" | ErrorCode;
  /** Sets the scene and says what to ask. */
  question: () => Promise<Omit<Question, "operation">> | Omit<Question, "operation">;
  /** Default: the one with room in its queue. */
  service?: () => Service;
  /** What each door is asked is another question of the kind: what was asked once cannot be asked again. */
  anew?: true;
  /** Undoes the scene. */
  after?: () => Promise<unknown>;
  /** What differs between one answer and the next, whatever the door, is left out of the comparison. */
  varies?: readonly string[];
};

/** Each door makes a job or a worktree of its own. */
export const newJob = ["id", "created_at", "at"];
export const otherJob = [
  ...newJob,
  "asked_at",
  "branch",
  "job_config_dir",
  "pid",
  "session_id",
  "started_at",
  "until",
  "worktree_id",
  "worktree_path",
];
export const newWorktree = ["worktree_id", "path", "branch", "created_at", "age_hours", "measured_at"];

/** The services that the rows call, each in the state that some answers need. */
export const openScene = async () => {
  const [roomy, full, draining, clogged, crowded, poor, asking, { path: remote }] = await Promise.all([
    busy("hang", agentMode),
    busy("hang", { ...agentMode, SERVICE_MAX_QUEUED_JOBS: "1", AGENT_MODE_MAX_CONCURRENT: "1" }),
    busy("ignore-term", { ...agentMode, SERVICE_AGENT_CLI_KILL_GRACE: "3600" }),
    withoutPlaces(),
    startService({
      env: {
        SERVICE_MIN_FREE_DISK_BYTES: "1125899906842624",
        SERVICE_TELEMETRY_DB: "postgres://127.0.0.1:9/none",
      },
    }),
    startService({ env: { ...agentMode, SERVICE_ALLOW_NO_MODEL_CREDENTIAL: undefined } }),
    startService({ env: { SERVICE_MAX_PARALLEL_JOBS: "20", SERVICE_QUESTION_LIVE: "3600" } }),
    makeRemote(),
  ]);
  await full.client.run_task({ task: "fills the queue" });
  await full.client.agent_completions({ uuid: "endless", message: "scenario: hang", wait: false });
  await roomy.client.agent_completions({ uuid: "endless", message: "scenario: hang", wait: false });
  const kept = (name: string, { home } = roomy): string => join(home, ".service", name);
  let stopped: Promise<unknown> | null = null;

  return {
    /** Takes what it is given; jobs wait behind one that does not end. */
    roomy,
    full,
    draining,
    /** Two preparations hold all permits, and their fetch does not end. */
    clogged,
    /** The floor of free room is above what any disk has, and nothing answers for its telemetry. */
    crowded,
    /** It has no model credential. */
    poor,
    /** Its jobs may ask. */
    asking,
    /** A job of it that waits for an answer. */
    asked: async (): Promise<string> => {
      const { job } = await asking.client.run_task({ task: 'scenario: ask {"then": "hang"}' });
      await until(async () => (await asking.client.get_job({ job_id: job.id })).job.waiting !== null, {
        what: "the agent to ask",
      });
      return job.id;
    },
    /** A repository. */
    remote,
    /** A job that waits. */
    submitted: async (): Promise<string> =>
      (await roomy.client.run_task({ task: "wait in the queue" })).job.id,
    prepared: async (): Promise<string> =>
      (await roomy.client.prepare_worktree({ repo_url: remote })).worktree_id,
    /** A worktree that is being prepared and stays so. */
    unready: async (): Promise<string> =>
      String((await clogged.client.list_worktrees()).worktrees[0]?.worktree_id),
    /** Resolves when `draining` is shutting down. */
    drain: async (): Promise<void> => {
      stopped ??= draining.stop();
      await until(async () => (await fetch(`${draining.url}/ready`)).status === 503, {
        what: "the service to drain",
      });
    },
    /** Makes it impossible for a service to store anything, whoever runs the tests. */
    loseStore: async (name = "jobs", service = roomy): Promise<void> => {
      await rename(kept(name, service), kept(`${name}-away`, service));
      await writeFile(kept(name, service), "");
    },
    findStore: async (name = "jobs", service = roomy): Promise<void> => {
      await rm(kept(name, service));
      await rename(kept(`${name}-away`, service), kept(name, service));
    },
    /** Stopped, not killed: that would leave their agents behind. */
    close: async (): Promise<void> => {
      const { jobs: left } = await draining.client.list_jobs({ status: "running" });
      // This one does not listen to SIGTERM.
      for (const { pid } of left) process.kill(-Number(pid), "SIGKILL");
      stopped ??= draining.stop();
      await Promise.all([
        stopped,
        ...[roomy, full, clogged, crowded, poor, asking].map((service) => service.stop()),
      ]);
    },
  };
};

export type Scene = Awaited<ReturnType<typeof openScene>>;

/** Ids of two jobs that begin with the same four digits. */
const alike = ["abcd0001-0000-4000-8000-000000000000", "abcd0002-0000-4000-8000-000000000000"];

const agentMode = { AGENT_MODE: "true", AGENT_MODE_WARM_PROCESSES: "0", AGENT_MODE_KEEP_ALIVE: "0" };

/** A service whose only permit has a job that does not end, so that every other job stays queued. */
const busy = async (scenario: string, env: Record<string, string> = {}): Promise<Service> => {
  const home = await temporaryDirectory();
  await mkdir(join(home, ".service", "profiles"), { recursive: true });
  await writeFile(join(home, ".service", "profiles", "broken.yml"), "claude: [");
  const jobs = join(home, ".service", "jobs");
  await mkdir(jobs);
  await requireFormat(inFiles(jobs), { mark: true });
  for (const id of alike) {
    const record = ended({ id, ttl_seconds: 1e9, task: `${id.slice(0, 8)} of before` });
    await writeFile(join(jobs, `${id}.json`), JSON.stringify(record));
  }
  // On a busy machine the questions take longer than an agent may say nothing.
  const limits = { SERVICE_MAX_PARALLEL_JOBS: "1", SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT: "0" };
  const service = await startService({ home, env: { ...limits, ...env } });
  const { job } = await service.client.run_task({ task: `scenario: ${scenario}` });
  await until(async () => (await service.client.get_job({ job_id: job.id })).job.pid !== null, {
    what: "the agent to run",
  });
  return service;
};

const withoutPlaces = async (): Promise<Service> => {
  const home = await temporaryDirectory();
  const { path, hold } = await slowGit(home);
  await writeFile(hold, "");
  const limits = { SERVICE_MAX_PARALLEL_JOBS: "1", SERVICE_MAX_QUEUED_JOBS: "1" };
  const service = await startService({ home, env: { PATH: path, ...limits } });
  const repo_url = (await makeRemote()).path;
  for (let count = 0; count < 2; count += 1)
    service.client.prepare_worktree({ repo_url }).catch(() => undefined);
  await until(async () => (await service.client.list_worktrees()).count === 2, {
    what: "the permits to be in use",
  });
  return service;
};
