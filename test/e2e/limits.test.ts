import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { afterFile } from "../cleanup.ts";
import { startSvc, svc } from "../cli/run-svc.ts";
import { startFakeModel } from "../fake-model/fake-model.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

/* Usage limits and overload, with the real CLI and a scripted model, from the model to what a person sees. */

const model = await startFakeModel();
afterFile(() => model.close());

/** The real CLI, which a service with a long-lived token does not tell where the model is. That of the profile `away` is nowhere. */
const cliOf = async (home: string): Promise<string> => {
  const wrapper = join(home, "claude");
  const cli = join(import.meta.dirname, "../../node_modules/.bin/claude");
  const url = `[ "$SERVICE_PROFILE" = away ] && url=http://127.0.0.1:1 || url=${model.url}`;
  const env = `ANTHROPIC_BASE_URL=$url CLAUDE_CODE_MAX_RETRIES=1`;
  await writeFile(wrapper, `#!/bin/sh\n${url}\n${env} exec ${cli} "$@"\n`);
  await chmod(wrapper, 0o755);
  return wrapper;
};

const home = await temporaryDirectory();
const profiles = join(home, ".service", "profiles");
await mkdir(profiles, { recursive: true });
for (const [name, how] of [
  ["failing", "fail"],
  ["keyed", "api_key"],
  ["away", "fail"],
])
  await writeFile(join(profiles, `${name}.yml`), `extends: code\nauto_pr: false\non_limit: ${how}\n`);
const env = {
  SERVICE_AGENT_CLI_BINARY: await cliOf(home),
  SERVICE_AGENT_SANDBOX: "off",
  AGENT_CLI_OAUTH_TOKEN: "subscription-token",
  ANTHROPIC_API_KEY: "key-beside-it",
  SERVICE_LIMIT_JITTER: "1",
  SERVICE_LIMIT_PAUSES: "1",
  SERVICE_OVERLOAD_PAUSES: "1,3",
};

/** Requests of the model in which a text occurs, and how often at most in one of them. */
const told = (marker: string): { requests: number; most: number } => {
  const counts = model.requests.map(({ body }) => JSON.stringify(body ?? "").split(marker).length - 1);
  return { requests: counts.filter((count) => count > 0).length, most: Math.max(...counts) };
};

const limited = (marker: string, resetsIn: number): string =>
  `${marker}\nscenario: error ${JSON.stringify({ status: 429, resetsIn, times: 1 })}`;

let service = await startService({ home, env });

const untilParked = (id: string) =>
  asks(service).when(id, ({ waiting, pid }) => waiting !== null && pid === null, "to be parked");

test("a limit with a reset time parks the job and holds others; who looks is told until when", async () => {
  const ask = asks(service);
  const { id } = await ask.submit({ task: limited("marker-one", 3600) });
  const time = String((await untilParked(id)).waiting?.until);
  const other = await ask.submit({ task: "marker-two\nscenario: text" });
  const held = await ask.when(other.id, (job) => job.held !== null, "to be held");
  expect(held).toMatchObject({ status: "queued", held: { reason: "limit", until: time } });

  const reached = { credential: expect.stringMatching(/^[0-9a-f]{12}$/) as string, until: time, jobs: 1 };
  expect(await service.client.list_instances({})).toMatchObject({
    limits: [reached],
    instances: [{ running: 0 }],
  });
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  expect(metrics).toMatch(/^service_limit_parked_jobs 1$/m);
  await expect(service.client.answer_job({ job_id: id, text: "Go on" })).rejects.toMatchObject({
    status: 409,
    code: "not_waiting",
    message: expect.stringContaining("usage limit") as string,
  });
  const at = { env: { SERVICE_PORT: new URL(service.url).port } };
  const waits = `waits for the usage limit until ${time}`;
  const list = await svc(["jobs"], at);
  expect(list.stdout.match(new RegExp(`limited .*marker-(one|two).*→ ${waits}`, "g"))).toHaveLength(2);
  expect((await svc(["job", id], at)).stdout).toMatch(
    new RegExp(`^Status +limited$[^]*^Waits for +the usage limit until ${time}$`, "m"),
  );
  expect((await svc(["answer", id, "Go on"], at)).code).toBe(1);
  const waiter = startSvc(["wait", id], at);
  await until(() => waiter.output.stderr.includes(waits), { what: "svc wait to say until when" });
  expect(waiter.child.exitCode).toBeNull();
  expect((await service.client.cancel_job({ job_id: id })).job).toMatchObject({ status: "cancelled" });
  expect((await waiter.ended).code).toBe(1);
});

test("a job that is parked when the service is killed goes on at its reset, and those that are held; none gets its prompt twice", async () => {
  const earlier = (await service.client.list_jobs({ status: "queued" })).jobs;
  expect(earlier).toHaveLength(1);
  // It is held for the limit of a job that is gone.
  await service.client.cancel_job({ job_id: earlier[0]?.id ?? "" });
  const { id } = await asks(service).submit({ task: limited("marker-three", 8) });
  const time = Date.parse(String((await untilParked(id)).waiting?.until));
  const held = await asks(service).submit({ task: "marker-four\nscenario: text" });
  await service.kill();
  service = await startService({ home, env });
  const ask = asks(service);
  const done = await ask.ended(id);
  expect(done).toMatchObject({ status: "succeeded", output: "Done.", attempt: 1, waiting: null });
  expect(Date.parse(String(done.ended_at))).toBeGreaterThan(time);
  expect(await ask.ended(held.id)).toMatchObject({ status: "succeeded", attempt: 1, held: null });
  expect(told("marker-three")).toEqual({ requests: 2, most: 1 });
  expect(told("marker-four").most).toBe(1);
});

test("a limit without a time, an overload, and a limit of a profile that fails, or changes to the key", async () => {
  const ask = asks(service);
  const timeless = await ask.run({
    task: 'marker-five\nscenario: error {"status": 429, "retryAfter": 14400, "times": 1}',
  });
  expect(timeless).toMatchObject({ status: "succeeded", output: "Done.", attempt: 1 });
  expect(told("marker-five").most).toBe(1);

  const overloaded = await ask.run({ task: 'marker-six\nscenario: error {"status": 529, "times": 2}' });
  expect(overloaded).toMatchObject({ status: "succeeded", output: "Done." });
  expect(overloaded.warnings.join()).toContain(
    "The model answered 529; the agent went on after 1 s, try 1 of 3",
  );
  expect(told("marker-six").most).toBe(1);

  expect(await ask.run({ task: limited("marker-seven", 300), profile: "failing" })).toMatchObject({
    status: "failed",
    failure_reason: "rate_limited",
    retryable: true,
  });
  const keyed = await ask.run({ task: limited("marker-eight", 300), profile: "keyed" });
  expect(keyed).toMatchObject({ status: "succeeded", output: "Done." });
  expect(keyed.warnings.join()).toContain("goes on with ANTHROPIC_API_KEY");
  expect(told("marker-eight").most).toBe(1);
  const credentials = model.requests
    .filter(({ body }) => JSON.stringify(body ?? "").includes("marker-eight"))
    .map(({ headers }) => headers["x-api-key"] ?? headers.authorization);
  expect(credentials).toEqual(["Bearer subscription-token", "key-beside-it"]);
});

test("a job whose model is away waits for it in four processes of one session, and says so; then it succeeds, or fails", async () => {
  const ask = asks(service);
  const refused = await ask.submit({ task: "scenario: text", profile: "away" });
  const { id } = await ask.submit({
    task: 'marker-nine\nscenario: error {"status": 500, "message": "down", "times": 6}',
  });
  const waiter = startSvc(["wait", id], { env: { SERVICE_PORT: new URL(service.url).port } });
  const { waiting } = await ask.when(
    id,
    (job) => job.waiting?.id === "model_2",
    "to wait for its model",
    120,
  );
  expect(Date.parse(waiting?.until ?? "")).toBe(Date.parse(waiting?.asked_at ?? "") + 3000);
  await expect(service.client.answer_job({ job_id: id, text: "Go on" })).rejects.toMatchObject({
    status: 409,
    code: "not_waiting",
    message: expect.stringContaining("asked again by itself") as string,
  });
  const [done, failed] = await Promise.all(
    [id, refused.id].map((each) => ask.when(each, (job) => job.ended_at !== null, "to end", 120)),
  );
  expect(done).toMatchObject({ status: "succeeded", output: "Done.", attempt: 1, waiting: null });
  expect(told("marker-nine").most).toBe(1);
  expect((await waiter.ended).code).toBe(0);
  for (const [nth, pause] of [1, 3, 3].entries())
    expect(waiter.output.stderr).toContain(
      `the model answered 500: asked again in ${pause}.0 s (${nth + 1} of 3)`,
    );

  expect(failed).toMatchObject({
    failure_reason: "api_error",
    retryable: true,
    attempt: 1,
    waiting: null,
    error: expect.stringContaining("ECONNREFUSED") as string,
  });
  const tries = failed?.warnings.filter((text) => text.includes("did not answer; the agent went on"));
  expect(tries).toHaveLength(3);
});
