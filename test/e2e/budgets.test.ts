import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { asks } from "../asks.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runJob } from "./ended-job.ts";

/** One run of the fake agent. */
const cost = 0.0123;

const spentOf = async (url: string, key: string): Promise<number> => {
  const response = await fetch(`${url}/usage`, { headers: { "x-api-key": key } });
  return ((await response.json()) as { total: { cost_usd: number } }).total.cost_usd;
};

test("a spent budget of the day refuses jobs and chat turns with 429 and the time it lifts; the other key goes on", async () => {
  const service = await startService({
    env: {
      SERVICE_API_KEYS: "first-key-1,second-key-2",
      SERVICE_API_KEY: "first-key-1",
      SERVICE_BUDGET_KEY_DAY_USD: "0.01",
      AGENT_MODE: "true",
    },
  });
  expect((await runJob(service, "One")).cost_usd).toBe(cost);
  await until(async () => (await spentOf(service.url, "first-key-1")) >= cost);
  const post = (path: string, key: string, body: object) =>
    fetch(service.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": key },
      body: JSON.stringify(body),
    });
  const refused = await post("/jobs", "first-key-1", { task: "Two" });
  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(await refused.json()).toMatchObject({
    success: false,
    code: "budget_reached",
    error: expect.stringMatching(
      /The budget of this API key for today is spent .*SERVICE_BUDGET_KEY_DAY_USD/,
    ),
  });
  const messages = [{ role: "user", content: "hello" }];
  const chat = await post("/v1/chat/completions", "first-key-1", {
    model: "default",
    messages,
    stream: true,
  });
  expect([chat.status, await chat.json()]).toEqual([
    429,
    { error: expect.objectContaining({ code: "budget_reached" }) },
  ]);
  const completion = await post("/completions", "first-key-1", { message: "hello", uuid: "one" });
  expect(completion.status).toBe(429);
  expect((await post("/jobs", "second-key-2", { task: "Two" })).status).toBe(200);
});

const usageOf = async (service: Service) => (await service.client.get_usage({})).total;

const speakingThrice = async (service: Service): Promise<Job> => {
  const { submit, when } = asks(service);
  const { id } = await submit({ task: 'scenario: hang {"after": 3}' });
  return await when(
    id,
    ({ usage }) => usage?.output_tokens === 60,
    "to have told the tokens of three messages",
  );
};

test("a job that is cancelled costs what its tokens cost, at the price of earlier runs, and its budget counts it", async () => {
  const service = await startService({ env: { SERVICE_BUDGET_DAY_USD: "0.03" } });
  const first = await runJob(service, "One");
  await until(async () => (await usageOf(service)).cost_usd === cost);
  const price = cost / (100 + 5 * 20 + 0.1 * 7);
  const running = await speakingThrice(service);
  await service.client.cancel_job({ job_id: running.id });
  const job = await asks(service).ended(running.id);
  expect([first.cost_estimated, job.status, job.cost_estimated]).toEqual([false, "cancelled", true]);
  expect(job.cost_usd).toBeCloseTo(price * 5 * 60, 9);
  const total = await until(async () => {
    const found = await usageOf(service);
    return found.cancelled === 1 ? found : undefined;
  });
  expect(total.estimated_cost_usd).toBeCloseTo(price * 5 * 60, 9);
  expect(total.cost_usd).toBeCloseTo(cost + price * 5 * 60, 9);
  const response = await fetch(`${service.url}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ task: "Three" }),
  });
  expect([response.status, await response.json()]).toEqual([
    429,
    expect.objectContaining({ code: "budget_reached" }),
  ]);
});

test("a job whose service is killed costs what its agent had used by then, at the price of the table; the budget of a profile refuses tasks for it alone", async () => {
  const home = await temporaryDirectory();
  await mkdir(join(home, ".service", "profiles"), { recursive: true });
  await writeFile(join(home, ".service/profiles/cheap.yml"), "extends: code\nbudget_day_usd: 0.01\n");
  const service = await startService({ home });
  const { id } = await speakingThrice(service);
  await service.kill();
  const again = await startService({ home });
  const job = await asks(again).ended(id);
  expect(job).toMatchObject({ failure_reason: "instance_lost", cost_estimated: true, cost_usd: 0.0009 });
  await until(async () => (await usageOf(again)).estimated_cost_usd === 0.0009);

  await runJob(again, "One", { profile: "cheap" });
  await until(async () => (await spentOf(again.url, "")) >= cost);
  const refused = asks(again).run({ task: "Two", profile: "cheap" });
  await expect(refused).rejects.toThrow(/budget of the profile cheap/);
  await runJob(again, "Two");
});
