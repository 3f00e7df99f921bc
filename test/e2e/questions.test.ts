import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isFinal, type Job } from "../../src/contract/job.ts";
import { bothClis } from "../agent-clis.ts";
import { startFakeModel, type FakeModel } from "../fake-model/fake-model.ts";
import { mcpDoors } from "../mcp-doors.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

/* Questions and plans of an agent, from the agent to a person and back: a stand-in's, and those of the real CLI with a scripted model. */

let model: FakeModel;

beforeAll(async () => {
  model = await startFakeModel({ token: "model-token" });
});
afterAll(() => model.close());

const jobOf = async ({ client }: Service, { id }: Pick<Job, "id">): Promise<Job> =>
  (await client.get_job({ job_id: id })).job;

const asked = (service: Service, job: Pick<Job, "id">, before: string | null = null) =>
  until(
    async () => {
      const { waiting, status, error } = await jobOf(service, job);
      if (isFinal(status)) expect.fail(`it has ended: ${error}`);
      return waiting?.id === before ? null : waiting;
    },
    { what: "the question" },
  );

const parked = (service: Service, job: Pick<Job, "id">) =>
  until(
    async () => {
      const found = await jobOf(service, job);
      const { instances } = await service.client.list_instances({});
      return found.pid === null && found.waiting !== null && instances[0]?.running === 0 ? found : null;
    },
    { what: "a parked job" },
  );

const ended = (service: Service, job: Pick<Job, "id">) =>
  until(
    async () => {
      const found = await jobOf(service, job);
      return isFinal(found.status) ? found : null;
    },
    { what: "its end" },
  );

const read = ({ worktree_path }: Job, file: string): Promise<string> =>
  readFile(join(String(worktree_path), file), "utf8").catch(() => "");

const submit = async ({ client }: Service, task: string, options = {}): Promise<Job> => {
  const remote = await makeRemote();
  return (await client.run_task({ task, repo_url: remote.path, options })).job;
};

/** @returns the service that was started anew, with `env` */
const keepsItsQuestion = async (
  first: Service,
  how: "kill" | "stop",
  env: Record<string, string>,
): Promise<Service> => {
  const heardBefore = model.requests.length;
  const job = await submit(first, "scenario: ask {}");
  const { id } = await asked(first, job);
  await first[how]();
  const second = await startService({ home: first.home, env });
  const waiting = await parked(second, job);
  expect(waiting).toMatchObject({ status: "running", attempt: 1, waiting: { id } });
  await second.client.answer_job({ job_id: job.id, id, text: "SQLite" });
  const done = await ended(second, job);
  expect(done).toMatchObject({ status: "succeeded", attempt: 1 });
  // What a scripted agent does with it is another matter: its next turn is not that of the scenario.
  const files = await Promise.all(
    (await readdir(String(done.worktree_path))).map((file) => read(done, file)),
  );
  expect(files.join() + JSON.stringify(model.requests.slice(heardBefore))).toContain("SQLite");
  return second;
};

describe.each(bothClis)("$which CLI", ({ cli }) => {
  const env = () => ({
    SERVICE_AGENT_CLI_BINARY: cli,
    MODEL_API_BASE_URL: model.url,
    MODEL_API_AUTH_TOKEN: "model-token",
  });
  let service: Service;

  beforeAll(async () => {
    service = await startService({ env: { ...env(), SERVICE_QUESTION_LIVE: "0" } });
  });

  test("is answered after its job was parked, also by a service that was started anew in between", async () => {
    const job = await submit(service, "scenario: ask {}");
    const waiting = await parked(service, job);
    expect(waiting).toMatchObject({ status: "running", attempt: 1 });
    await service.stop();
    service = await startService({ home: service.home, env: env() });
    expect((await jobOf(service, job)).waiting).toEqual(waiting.waiting);
    await service.client.answer_job({ job_id: job.id, answers: { "Which database?": "SQLite" } });
    const done = await ended(service, job);
    expect(done).toMatchObject({
      status: "succeeded",
      outcome: "changed",
      attempt: 1,
      started_at: waiting.started_at,
      session_id: waiting.session_id,
    });
    expect(done.num_turns).toBeGreaterThan(Number(waiting.num_turns));
    expect(done.cost_usd).toBeGreaterThan(Number(waiting.cost_usd));
    expect(done.stages.map(({ stage }) => stage)).toEqual([
      ...new Set(done.stages.map(({ stage }) => stage)),
    ]);
    expect(await read(done, "answer.txt")).toContain("SQLite");
  });

  test("keeps its question, with the same id, when the service that held it is killed", async () => {
    service = await keepsItsQuestion(service, "kill", env());
  });

  test("works by a plan once a person approves it; who sends it back gets another one", async () => {
    const job = await submit(service, "scenario: plan {}", { plan: true });
    const first = await asked(service, job);
    expect(first).toMatchObject({ kind: "plan", questions: [] });
    expect(first.plan).toContain("Plan");
    const [mcp] = mcpDoors;
    const input = { job_id: job.id, approve: false, feedback: "Use JSON." };
    const sentBack = await mcp?.ask(service, { operation: "answer_job", input });
    expect(sentBack?.body).toMatchObject({ success: true, job: { waiting: null } });
    const second = await asked(service, job, first.id);
    expect(second.plan).toContain("Use JSON.");
    await service.client.answer_job({ job_id: job.id, id: second.id, approve: true });
    expect(await ended(service, job)).toMatchObject({ status: "succeeded", outcome: "changed" });
  });
});

describe("the stand-in", () => {
  let service: Service;

  beforeAll(async () => {
    const home = await temporaryDirectory();
    const profiles = join(home, ".service", "profiles");
    await mkdir(profiles, { recursive: true });
    for (const how of ["fail", "never"])
      await writeFile(join(profiles, `${how}.yml`), `extends: code\nquestions: ${how}\n`);
    service = await startService({ home });
  });

  test("gets the answer to its question in the process that asked", async () => {
    const job = await submit(service, "scenario: ask {}");
    const { id, questions, kind } = await asked(service, job);
    expect({ kind, question: questions[0]?.question }).toEqual({
      kind: "question",
      question: "Which database?",
    });
    const { pid } = await jobOf(service, job);
    await service.client.answer_job({ job_id: job.id, id, text: "SQLite" });
    const done = await ended(service, job);
    expect(done).toMatchObject({ status: "succeeded", outcome: "changed", pid, waiting: null });
    expect(await read(done, "answer.txt")).toContain("SQLite");
  });

  test("ends its job by asking where the profile says fail, and cannot ask where it says never", async () => {
    const remote = await makeRemote();
    const run = async (profile: string) =>
      ended(
        service,
        (await service.client.run_task({ task: "scenario: ask {}", repo_url: remote.path, profile })).job,
      );
    expect(await run("fail")).toMatchObject({
      status: "failed",
      failure_reason: "needs_input",
      outcome: "question",
      error: expect.stringContaining("Which database?") as string,
    });
    const { status, worktree_path } = await run("never");
    expect(status).toBe("succeeded");
    expect(await readFile(join(String(worktree_path), "answer.txt"), "utf8")).toContain(
      "No such tool available",
    );
  });

  test("keeps its question, with the same id, when the service that held it is stopped", async () => {
    service = await keepsItsQuestion(service, "stop", { SERVICE_QUESTION_LIVE: "1" });
  });

  test("does nothing when its plan is refused, held or parked", async () => {
    const job = await submit(service, "scenario: plan {}", { plan: true });
    const other = await submit(service, "scenario: plan {}", { plan: true });
    await asked(service, job);
    await service.client.answer_job({ job_id: job.id, approve: false });
    await parked(service, other);
    await service.client.answer_job({ job_id: other.id, approve: false });
    for (const each of [job, other])
      expect(await ended(service, each)).toMatchObject({
        status: "succeeded",
        outcome: "plan",
        commit_sha: null,
      });
  });
});
