import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { startFakeModel, type FakeModel } from "../fake-model/fake-model.ts";
import { processesMarked } from "../processes.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { until } from "../until.ts";

/** The service with the real agent CLI; only the model is scripted. */
let model: FakeModel;
let service: Service;
let ask: ReturnType<typeof asks>;

beforeAll(async () => {
  model = await startFakeModel({ token: "model-token" });
  service = await startService({
    env: {
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "../../node_modules/.bin/claude"),
      MODEL_API_BASE_URL: model.url,
      MODEL_API_AUTH_TOKEN: "model-token",
    },
  });
  ask = asks(service);
});
afterAll(() => model.close());

test("the CLI does the work in our worktree, and its commit is pushed", async () => {
  const remote = await makeRemote();
  const job = await ask.run({ task: "Describe the layout in the README", repo_url: remote.path });
  expect(job).toMatchObject({ status: "succeeded", exit_code: 0, error: null });
  expect(job.warnings).toEqual([expect.stringContaining("no pull request was opened")]);
  expect(job.model).toMatch(/sonnet/);
  expect(job.num_turns).toBeGreaterThan(1);
  expect(job.usage?.output_tokens).toBeGreaterThan(0);
  expect(await remote.branches()).toEqual(["main", job.branch]);
});

test("a session is resumed where it ran, and the model is sent what was said before", async () => {
  const remote = await makeRemote();
  const first = await ask.run({
    task: 'scenario: text {"text": "The word is heliotrope."}',
    repo_url: remote.path,
  });
  const second = await ask.run({
    task: 'scenario: text {"text": "As I said."}',
    session_id: String(first.session_id),
  });
  expect(second).toMatchObject({ status: "succeeded", output: "As I said.", session_id: first.session_id });
  expect(second.worktree_path).toBe(first.worktree_path);
  const origins = await readFile(join(service.home, ".service", "origins.jsonl"), "utf8");
  const noted = origins.split("\n").filter((line) => line.includes(String(first.session_id)));
  expect(noted.map((line) => (JSON.parse(line) as { job_id: string }).job_id)).toEqual([first.id, second.id]);
  expect(JSON.stringify(model.requests.at(-1)?.body)).toContain("heliotrope");
});

test("a model that answers 400 makes the job fail as api_error, though the CLI calls that a success", async () => {
  // The other answers: src/agents/claude/real-cli.test.ts.
  const job = await ask.run({ task: 'scenario: error {"status": 400}' });
  expect(job).toMatchObject({ status: "failed", failure_reason: "api_error", retryable: false });
  expect(job.error).toBeTruthy();
});

test("a cancelled job leaves nothing running, not even a shell command in a session of its own", async () => {
  const command = "nohup setsid sleep 600 >/dev/null 2>&1 & sleep 600";
  const { id } = await ask.submit({ task: `scenario: bash ${JSON.stringify({ command })}` });
  await until(() => processesMarked(id).length >= 4, { seconds: 30, what: "the command to run" });
  expect((await service.client.cancel_job({ job_id: id })).job.status).toBe("cancelled");
  await until(() => processesMarked(id).length === 0, { what: "the processes to have ended" });
});
