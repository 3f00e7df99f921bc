import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { Failure, statusOf, type ErrorCode } from "../src/contract/errors.ts";
import type { Operation } from "../src/contract/operation.ts";
import { operations, type Operations } from "../src/contract/operations.ts";
import { doors, type Question } from "./doors.ts";
import { startService, type Service } from "./service.ts";
import { temporaryDirectory } from "./temporary.ts";
import { until } from "./until.ts";

/**
 * Every operation of the registry, its success and each error it declares, asked through every door and compared as
 * JSON. An operation or an error code without a row fails the last test.
 */
type Row = {
  operation: keyof Operations;
  outcome: "success" | ErrorCode;
  /** Sets the scene and says what to ask. */
  question: () => Promise<Omit<Question, "operation">> | Omit<Question, "operation">;
  /** Default: the one with room in its queue. */
  service?: () => Service;
  /** Undoes the scene. */
  after?: () => Promise<unknown>;
  /** Each door makes a job of its own: what is new about each is left out of the comparison. */
  makesJobs?: boolean;
};

let roomy: Service;
let full: Service;
let draining: Service;
let stopped: Promise<unknown>;

/** Stopped, not killed: that would leave their agents behind. */
const running: Service[] = [];
afterAll(() => Promise.all(running.map((service) => service.stop())));

/** A service whose only place is taken by a job that does not end, so that whatever is submitted stays queued. */
const busy = async (scenario: string, env: Record<string, string> = {}): Promise<Service> => {
  const home = await temporaryDirectory();
  await mkdir(join(home, ".service", "profiles"), { recursive: true });
  await writeFile(join(home, ".service", "profiles", "broken.yml"), "claude: [");
  const service = await startService({ home, env: { SERVICE_MAX_PARALLEL_JOBS: "1", ...env } });
  running.push(service);
  const { job } = await service.client.run_task({ task: `scenario: ${scenario}` });
  await until(async () => (await service.client.get_job({ job_id: job.id })).job.pid !== null, {
    what: "the agent to run",
  });
  return service;
};

beforeAll(async () => {
  [roomy, full, draining] = await Promise.all([
    busy("hang"),
    busy("hang", { SERVICE_MAX_QUEUED_JOBS: "1" }),
    busy("ignore-term", { SERVICE_AGENT_CLI_KILL_GRACE: "60" }),
  ]);
  await full.client.run_task({ task: "takes the last place in the queue" });
});

const submitted = async (): Promise<string> =>
  (await roomy.client.run_task({ task: "wait in the queue" })).job.id;

/** A directory that the store cannot write to, whoever runs the tests. */
const withoutStore = async (): Promise<void> => {
  const jobs = join(roomy.home, ".service", "jobs");
  await rename(jobs, `${jobs}-away`);
  await writeFile(jobs, "");
};

const storeBack = async (): Promise<void> => {
  const jobs = join(roomy.home, ".service", "jobs");
  await rm(jobs);
  await rename(`${jobs}-away`, jobs);
};

const task = "do it";
const unknownJob = () => ({ input: { job_id: "../../etc/passwd" } });
const afterStoreLoss = { after: storeBack };

const rows: Row[] = [
  { operation: "run_task", outcome: "success", question: () => ({ input: { task } }), makesJobs: true },
  {
    operation: "run_task",
    outcome: "invalid_request",
    question: () => ({ input: { task, session_id: "mine" } }),
  },
  {
    operation: "run_task",
    outcome: "invalid_repo_url",
    question: () => ({ input: { task, repo_url: "ext::sh -c id" } }),
  },
  { operation: "run_task", outcome: "invalid_ref", question: () => ({ input: { task, base_ref: "a..b" } }) },
  {
    operation: "run_task",
    outcome: "unknown_profile",
    question: () => ({ input: { task, profile: "nobody" } }),
  },
  {
    operation: "run_task",
    outcome: "invalid_profile",
    question: () => ({ input: { task, profile: "broken" } }),
  },
  {
    operation: "run_task",
    outcome: "worktree_not_found",
    question: () => ({ input: { task, worktree_id: "gone" } }),
  },
  {
    operation: "run_task",
    outcome: "idempotency_conflict",
    question: async () => {
      await roomy.client.run_task({ task: "another" }, { idempotencyKey: "once" });
      return { input: { task }, idempotencyKey: "once" };
    },
  },
  {
    operation: "run_task",
    outcome: "queue_full",
    question: () => ({ input: { task } }),
    service: () => full,
  },
  {
    operation: "run_task",
    outcome: "draining",
    service: () => draining,
    question: async () => {
      stopped = draining.stop();
      await until(async () => (await fetch(`${draining.url}/ready`)).status === 503, {
        what: "the service to drain",
      });
      return { input: { task } };
    },
    // Its agent does not listen to SIGTERM: it is ended here, so that the service can end.
    after: async () => {
      const { jobs } = await draining.client.list_jobs({ status: "running" });
      for (const { pid } of jobs) process.kill(-Number(pid), "SIGKILL");
      await stopped;
    },
  },
  {
    operation: "run_task",
    outcome: "store_unavailable",
    question: async () => {
      await withoutStore();
      return { input: { task } };
    },
    ...afterStoreLoss,
  },
  {
    operation: "get_job",
    outcome: "success",
    question: async () => ({ input: { job_id: await submitted() } }),
  },
  { operation: "get_job", outcome: "job_not_found", question: unknownJob },
  {
    operation: "list_jobs",
    outcome: "success",
    question: async () => {
      await roomy.client.cancel_job({ job_id: await submitted() });
      await roomy.client.cancel_job({ job_id: await submitted() });
      return { input: { limit: 1, status: "cancelled" } };
    },
  },
  { operation: "list_jobs", outcome: "invalid_request", question: () => ({ input: { cursor: "nowhere" } }) },
  {
    operation: "cancel_job",
    outcome: "success",
    question: async () => ({ input: { job_id: await submitted() } }),
  },
  { operation: "cancel_job", outcome: "job_not_found", question: unknownJob },
  {
    operation: "cancel_job",
    outcome: "store_unavailable",
    question: async () => {
      const job_id = await submitted();
      await withoutStore();
      return { input: { job_id } };
    },
    ...afterStoreLoss,
  },
  { operation: "list_profiles", outcome: "success", question: () => ({ input: {} }) },
];

describe("every door gives the same answer", () => {
  test.each(rows)(
    "$operation: $outcome",
    async ({ operation, outcome, question, after, makesJobs, service = () => roomy }) => {
      const asked = { operation, ...(await question()) };
      const answers: { door: string; status: number; body: unknown }[] = [];
      try {
        for (const { name, ask } of doors) {
          const answer = await ask(service(), asked);
          if (answer !== null) answers.push({ door: name, status: expectedStatus(outcome), ...answer });
        }
      } finally {
        await after?.();
      }
      const [first, ...others] = answers.map((answer) => ({
        ...answer,
        body: makesJobs ? unnamed(answer.body) : answer.body,
      }));
      expect(first?.status).toBe(expectedStatus(outcome));
      expect(first?.body).toSatisfy((body) => shapeOf(operation, outcome).safeParse(body).success);
      expect(others.length).toBeGreaterThan(0);
      for (const other of others) expect(other).toEqual({ ...first, door: other.door });
    },
  );

  test("and there is a row for every operation and every error it declares", () => {
    const declared = Object.entries<Operation>(operations).flatMap(([name, { errors }]) =>
      ["success", ...errors].map((outcome) => `${name} ${outcome}`),
    );
    expect(rows.map(({ operation, outcome }) => `${operation} ${outcome}`)).toEqual(
      expect.arrayContaining(declared),
    );
  });
});

const shapeOf = (operation: keyof Operations, outcome: Row["outcome"]): z.ZodType =>
  outcome === "success"
    ? operations[operation].output
    : Failure.extend({ code: z.literal(outcome) }).strict();

const expectedStatus = (outcome: Row["outcome"]): number => (outcome === "success" ? 200 : statusOf[outcome]);

/** `body` without what tells one new job from another. */
const unnamed = (body: unknown): unknown =>
  JSON.parse(JSON.stringify(body), (name, value: unknown) =>
    ["id", "created_at", "at"].includes(name) ? "new" : value,
  );
