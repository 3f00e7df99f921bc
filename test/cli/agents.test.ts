import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { createFleet } from "../../src/fleet/create-fleet.ts";
import { afterFile } from "../cleanup.ts";
import { createCluster } from "../cluster.ts";
import { lastingPort } from "../lasting-port.ts";
import { sampleFacts } from "../ports/instances-suite.ts";
import { startRedis } from "../redis.ts";
import { makeRemote } from "../remote.ts";
import type { Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { byName, expectFailure, headless, playInstances, type Listed } from "./headless.ts";
import { svc } from "./run-svc.ts";

/* svc agents --headless against an instance in agent mode and one with jobs only, on one store: found through it, and by a list. */

const key = "a-key-of-the-test";
let directory: string;
let chatter: Service;
let worker: Service;
/** Of svc, which finds the fleet through `chatter`. */
let env: Record<string, string>;

beforeAll(async () => {
  directory = await temporaryDirectory();
  const redis = await startRedis();
  const cluster = await createCluster({ kvUrl: redis.url, env: { SERVICE_API_KEYS: key } });
  [chatter, worker] = await Promise.all([
    cluster.start("chat-0", { env: { AGENT_MODE: "true" } }),
    cluster.start("work-0", { env: { SERVICE_HUB_URL: "/nonexistent/hub.git" } }),
  ]);
  const silent = sampleFacts({ name: "none-0" });
  await playInstances(redis.url, [silent, sampleFacts({ name: "work-1", address: chatter.url })]);
  env = { SERVICE_PORT: new URL(chatter.url).port, SERVICE_API_KEY: key };
  await until(
    async () =>
      (await worker.client.list_instances()).instances.filter((one) => one.address !== null).length === 3,
  );
});

const agents = (args: string[], more: Record<string, string> = {}) => headless(args, { ...env, ...more });

describe("through the store", () => {
  test("list has every instance with its kind and address; one that cannot be reached has its fault", async () => {
    const { code, body, stderr } = await agents(["list"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const listed = byName(body);
    expect(Object.keys(listed)).toEqual(["chat-0", "none-0", "work-0", "work-1"]);
    expect(listed).toMatchObject({
      "chat-0": { kind: "agent", source: "store", url: chatter.url, state: "ready", fault: null },
      "work-0": { kind: "orchestrator", url: worker.url, state: "ready", instance: { max_parallel_jobs: 3 } },
      "none-0": {
        kind: "orchestrator",
        url: null,
        state: "unreachable",
        fault: expect.stringContaining("set SERVICE_ADDRESS on it"),
      },
      "work-1": {
        state: "unreachable",
        fault: expect.stringContaining(`chat-0 answers at ${chatter.url}, not work-1`),
      },
    });
    expect((body as Listed).faults).toEqual([expect.stringMatching(/^kubectl config failed/)]);
  });

  test("chat prints the answer, with --no-wait where it will be; an instance with jobs only is refused with 2", async () => {
    const said = ["chat", "--pod", "chat", "--message", "scenario: echo {}"];
    const [waited, left, failed, wrong] = await Promise.all([
      agents(said),
      agents([...said, "--no-wait"]),
      agents(["chat", "--pod", "chat-0", "--message", "scenario: api-error {}"]),
      agents(["chat", "--pod", "work-0", "--message", "hello"]),
    ]);
    expect(waited).toMatchObject({ code: 0, stderr: "", body: { success: true, status: "completed" } });
    expect((waited.body as { result: string }).result).toContain('"turn":1');
    expect(left).toMatchObject({
      code: 0,
      body: { status: "queued", poll_url: expect.stringContaining("/") },
    });
    expect(failed).toMatchObject({ code: 1, body: { success: false, status: "failed" } });
    expect(failed.stderr).toMatch(/^svc: ./);
    expectFailure(wrong, 2, /^svc: work-0 answers no chats: use job, or an instance with AGENT_MODE=true/);
  });

  test("job submits and prints the job, to an agent as well", async () => {
    const { path } = await makeRemote();
    const asked = ["--task", "scenario: noop", "--repo", path];
    const [done, other, bad] = await Promise.all([
      agents(["job", "--pod", "work-0", ...asked]),
      agents(["job", "--pod", "chat-0", ...asked]),
      agents(["job", "--pod", "work-0", "--task", "x", "--repo", "ftp://no"]),
    ]);
    expect(done).toMatchObject({ code: 0, stderr: "", body: { success: true, job: { repo_url: path } } });
    const { id } = (done.body as { job: { id: string } }).job;
    expect((await chatter.client.get_job({ job_id: id })).job.id).toBe(id);
    expect(other).toMatchObject({ code: 0, body: { success: true } });
    expectFailure(bad, 2, /repo/);
  });

  test("sync prints the result by target, and ends with 1 when one could not be fetched", async () => {
    const [good, bad] = await Promise.all(["chat-0", "work-0"].map((pod) => agents(["sync", "--pod", pod])));
    expect(good).toMatchObject({ code: 0, stderr: "", body: { hub: "skipped (no url)" } });
    expect(bad).toMatchObject({ code: 1, body: { hub: expect.stringMatching(/^error: /) } });
    expect(bad?.stderr).toMatch(/^svc: hub: error: /);
  });

  test("health is the instance's own; one that is not reached ends with 1", async () => {
    const [good, lost] = await Promise.all(
      ["work-0", "none-0"].map((pod) => agents(["health", "--pod", pod])),
    );
    expect(good).toMatchObject({ code: 0, stderr: "", body: { status: "ok", service: "svc" } });
    expectFailure(lost, 1, /^svc: none-0 publishes no address/);
  });

  test("without a service, or with a wrong key, it ends with 1 and says what to do", async () => {
    const [nobody, noKey, noTool] = await Promise.all([
      agents(["list"], { SERVICE_PORT: "9" }),
      agents(["health", "--pod", "chat-0"], { SERVICE_API_KEY: "wrong" }),
      agents(["list"], { SERVICE_PORT: "9", PATH: "/nonexistent" }),
    ]);
    expectFailure(nobody, 1, /No service answers at http:\/\/127\.0\.0\.1:9: start it with svc serve/);
    expectFailure(noKey, 1, /does not accept the API key that was sent: set SERVICE_API_KEY/);
    expectFailure(noTool, 1, /^svc: kubectl is not installed[^]*svc: No service answers/);
  });
});

describe("what is not understood ends with 2", () => {
  test.each([
    [["chat", "--message", "hi"], /--pod is missing/],
    [["chat", "--pod", "chat-0"], /--message is missing/],
    [["job", "--pod", "work-0", "--repo", "a/b"], /--task is missing/],
    [["job", "--pod", "work-0", "--task", "x"], /--repo is missing/],
    [["local"], /--agent is missing/],
    [["dance"], /choices are list, chat, job, sync, health, local|Allowed choices are list/],
    [[], /--headless needs a command, one of list, chat/],
    [
      ["health", "--pod", "wrok-0"],
      /no instance wrok-0: there are chat-0, none-0, .*; did you mean work-0\?/,
    ],
    [["health", "--pod", "work"], /Several instances begin with work: work-0, work-1/],
    [["health", "--pod", "--context=prod\u001b[31m"], /There is no instance --context=prod/],
    [["list", "--agentihub-dir", "/nonexistent"], /no directory \/nonexistent\/agents/],
  ])("%j", async (args, message) => {
    expectFailure(await agents(args), 2, message);
  });

  test("a command without --headless, which would be lost on a screen", async () => {
    expectFailure(await svc(["agents", "list"], { env }), 2, /svc agents --headless list/);
  });
});

test("local packages are listed with their faults, and local prints the configuration of one", async () => {
  const hub = join(directory, "hub");
  for (const name of ["writer", "broken"])
    await mkdir(join(hub, "agents", name, "package"), { recursive: true });
  const writer = join(hub, "agents", "writer");
  await writeFile(join(writer, "agent.yml"), "description: Writes\nextends: code\nclaude:\n  model: opus\n");
  await writeFile(join(writer, "package", "system.md"), "You write.\n");
  await writeFile(
    join(writer, "package", ".mcp.json"),
    JSON.stringify({ mcpServers: { wiki: { command: "wiki", env: { TOKEN: "canary" } } } }),
  );
  await writeFile(join(hub, "agents", "broken", "agent.yml"), "modle: x\n");
  const [all, one, none] = await Promise.all([
    agents(["list"], { HUB_DIR: hub, SERVICE_PORT: "9" }),
    agents(["local", "--agent", "writer", "--agentihub-dir", hub], { HUB_DIR: "/nonexistent" }),
    agents(["local", "--agent", "writter"], { SERVICE_HUB_PATH: hub }),
  ]);
  // Without any instance the packages are there, and the faults say what was tried.
  expect(all).toMatchObject({
    code: 0,
    body: { remotes: [], faults: [expect.anything(), expect.anything()] },
  });
  expect((all.body as Listed).local).toEqual([
    expect.objectContaining({ name: "broken", error: expect.stringContaining("unknown key modle") }),
    expect.objectContaining({ name: "writer", description: "Writes", error: null }),
  ]);
  expect(one).toMatchObject({ code: 0, stderr: "" });
  expect(one.body).toMatchObject({
    agent: {
      name: "writer",
      path: writer,
      config: { description: "Writes", claude: { model: "opus" } },
      mcp_servers: ["wiki"],
      system_prompt: "You write.",
    },
  });
  expect(one.stdout).not.toContain("canary");
  expectFailure(
    none,
    2,
    /There is no agent package writter: there are broken, writer; did you mean writer\?/,
  );
});

test("an agent hub that cannot be read is a fault of the local packages, and of nothing else", async () => {
  const [listed, health, local, nothing] = await Promise.all([
    agents(["list"], { HUB_DIR: "/nonexistent" }),
    agents(["health", "--pod", "work-0"], { HUB_DIR: "/nonexistent" }),
    agents(["local", "--agent", "writer"], { SERVICE_HUB_PATH: "/nonexistent" }),
    agents(["list"], { HUB_DIR: "/nonexistent", SERVICE_PORT: "9" }),
  ]);
  expect(listed).toMatchObject({ code: 0, stderr: "", body: { local: [] } });
  expect(Object.keys(byName(listed.body))).toContain("work-0");
  const missing = /There is no directory \/nonexistent\/agents: name a checkout of the agent hub/;
  expect((listed.body as Listed).faults).toContainEqual(expect.stringMatching(missing));
  expect(health).toMatchObject({ code: 0, stderr: "" });
  for (const failed of [local, nothing]) expectFailure(failed, 1, missing);
});

test("with SERVICE_REMOTES only those are asked, and one that is lost is listed with its fault", async () => {
  const lost = `http://127.0.0.1:${await lastingPort()}`;
  const [listed, sick] = await Promise.all([
    agents(["list"], { SERVICE_REMOTES: [worker.url, `${worker.url}/`, lost].join(", ") }),
    agents(["list"], { SERVICE_REMOTES: "http://user:secret@host" }),
  ]);
  expect(listed).toMatchObject({ code: 0, body: { faults: [] } });
  expect((listed.body as Listed).remotes).toMatchObject([
    { name: "work-0", source: "list", kind: "orchestrator", state: "ready", instance: { name: "work-0" } },
    {
      name: lost.replace("http://", ""),
      state: "unreachable",
      fault: expect.stringContaining(`No service answers at ${lost}`),
    },
  ]);
  expectFailure(sick, 1, /SERVICE_REMOTES .*must not hold credentials/);
});

test("instances that take a connection and say nothing are given up together", async () => {
  const port = await lastingPort();
  const silence = createServer().listen(port, "127.0.0.1");
  afterFile(() => silence.close());
  const urls = Array.from({ length: 10 }, (_, number) => `http://127.0.0.1:${port}/${number}`);
  const fleet = createFleet({ remotes: urls, baseUrl: "", apiKey: undefined, env: {}, patience: 2 });
  const began = performance.now();
  const { remotes } = await fleet.list(new AbortController().signal);
  expect(performance.now() - began).toBeLessThan(12_000);
  expect(remotes).toMatchObject(
    urls.map((url) => ({ state: "unreachable", fault: expect.stringContaining(`${url} has not answered`) })),
  );
});
