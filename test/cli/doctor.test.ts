import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { newestCli } from "../agent-clis.ts";
import { hostVariables, startHost } from "../e2e/hosted.ts";
import { startFakeModel } from "../fake-model/fake-model.ts";
import { openKv } from "../kv.ts";
import { startRedis } from "../redis.ts";
import { fakeAgent } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { svc } from "./run-svc.ts";

type Report = { healthy: boolean; checks: { name: string; status: string; message: string }[] };

const machine = async (): Promise<Record<string, string>> => ({
  HOME: await temporaryDirectory(),
  SERVICE_PORT: "9",
  SERVICE_AGENT_CLI_BINARY: fakeAgent,
  ANTHROPIC_API_KEY: "canary-of-the-model",
});

const checksOf = (stdout: string): Record<string, string> =>
  Object.fromEntries(
    (JSON.parse(stdout) as Report).checks.map(({ name, status, message }) => [name, `${status}: ${message}`]),
  );

test("svc doctor tries the programs, the model and the git host as jobs use them, and shows no secret", async () => {
  const host = await startHost();
  await using model = await startFakeModel();
  const tried = { SERVICE_AGENT_CLI_BINARY: newestCli, MODEL_API_BASE_URL: model.url };
  const env: Record<string, string> = {
    ...(await machine()),
    ...hostVariables(host, host.createToken()),
    ...tried,
  };
  const { code, stdout, stderr } = await svc(["doctor", "--json"], { env });
  const checks = checksOf(stdout);
  expect(checks).toMatchObject({
    git: expect.stringMatching(/^ok: git version \d/) as string,
    agent: expect.stringMatching(/^ok: 2\.\d+\.\d+ \(.*\), one turn .* in \d+\.\d s$/) as string,
    model: expect.stringMatching(/^ok: http.*\/v1\/models answers 404 in .* to ANTHROPIC_API_KEY/) as string,
    "git host": expect.stringMatching(/as robot, with repo, read:org; without workflow/) as string,
    disk: expect.stringMatching(/^ok: .* GiB free at /) as string,
    store: expect.stringMatching(/^ok: Files in /) as string,
    clock: "ok: As the git host's",
    service: expect.stringMatching(/^warning: No service answers .*svc serve/) as string,
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).not.toContain("canary");
  expect(stdout).not.toContain(env["GIT_HOST_TOKEN"]);

  const asked = host.requests.length + model.requests.length;
  const offline = await svc(["doctor", "--offline", "--json"], { env });
  expect(checksOf(offline.stdout)).toMatchObject({
    agent: expect.stringMatching(/^ok: 2\.\d+\.\d+ \([^)]*\)$/) as string,
    model: expect.stringMatching(/^ok: ANTHROPIC_API_KEY is set/) as string,
    "git host": expect.stringMatching(/^warning: .* was not tried/) as string,
  });
  expect(host.requests.length + model.requests.length).toBe(asked);
});

test("svc doctor --offline writes nothing, neither files nor keys", async () => {
  const redis = await startRedis();
  const { client } = await openKv(redis.url);
  await client.set("service:format", "4");
  const content = async () =>
    await Promise.all((await client.keys("*")).map(async (key) => [key, await client.dumpBuffer(key)]));
  const before = await content();
  const [home, temporary] = [await temporaryDirectory(), await temporaryDirectory()];
  for (const more of [{}, { KV_URL: redis.url }]) {
    const env = { ...(await machine()), ...more, HOME: home, TMPDIR: temporary, NODE_COMPILE_CACHE: "" };
    const { stdout } = await svc(["doctor", "--offline", "--json"], { env, ownProcess: true });
    expect(checksOf(stdout)).toMatchObject({ store: expect.stringMatching(/^ok: /) as string });
  }
  expect([...(await readdir(home)), ...(await readdir(temporary))]).toEqual([]);
  expect(await content()).toEqual(before);
});

test("svc doctor names each fault with what to do, and ends with 1", async () => {
  const { ANTHROPIC_API_KEY: _key, ...env } = await machine();
  const { code, stdout } = await svc(["doctor"], {
    env: {
      ...env,
      SERVICE_AGENT_CLI_BINARY: join(env["HOME"] ?? "", "no-agent"),
      KV_URL: "redis://127.0.0.1:9",
    },
  });
  expect(stdout).toMatch(/^Agent +fault: .*no-agent does not exist\. .*SERVICE_AGENT_CLI_BINARY/m);
  expect(stdout).toMatch(/^Model +fault: No model credential is set.*claude setup-token/m);
  expect(stdout).toMatch(/^Git host +warning: No token for github\.com.*Set GIT_HOST_TOKEN/m);
  expect(stdout).toMatch(/^Store +fault: .*127\.0\.0\.1:9/m);
  expect(code).toBe(1);
});
