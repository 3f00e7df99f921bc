import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { delimiter, join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { createFleet } from "../../src/fleet/create-fleet.ts";
import type { Remote } from "../../src/fleet/fleet.ts";
import { afterFile } from "../cleanup.ts";
import { createCluster } from "../cluster.ts";
import { openKv } from "../kv.ts";
import { lastingPort } from "../lasting-port.ts";
import { sampleFacts } from "../ports/instances-suite.ts";
import { startRedis } from "../redis.ts";
import { makeRemote } from "../remote.ts";
import type { Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { svc } from "./run-svc.ts";

/* svc agents --headless against an instance in agent mode and one with jobs only, on one store; through it, a list and kubectl. */

type Listed = { remotes: Remote[]; local: { name: string; error: string | null }[]; faults: string[] };

const key = "a-key-of-the-test";
let directory: string;
let chatter: Service;
let worker: Service;
/** Of svc, which finds the fleet through `chatter`. */
let env: Record<string, string>;
/** An instance that takes a connection and says nothing. */
let silent: string;

beforeAll(async () => {
  directory = await temporaryDirectory();
  const redis = await startRedis();
  const cluster = await createCluster({ kvUrl: redis.url, env: { SERVICE_API_KEYS: key } });
  const port = await lastingPort();
  const silence = createServer().listen(port, "127.0.0.1");
  afterFile(() => silence.close());
  silent = `http://127.0.0.1:${port}`;
  [chatter, worker] = await Promise.all([
    cluster.start("chat-0", { env: { AGENT_MODE: "true" } }),
    cluster.start("work-0", { env: { SERVICE_HUB_URL: "/nonexistent/hub.git" } }),
  ]);
  const kv = await openKv(redis.url, "service");
  // An instance of an earlier version, whose lease has neither address nor agent mode, and one with another's address.
  const { address: _, agent_mode: __, ...old } = sampleFacts({ name: "old-0" });
  for (const facts of [old, sampleFacts({ name: "work-1", address: chatter.url })]) {
    const lease = { facts, process: null, pid_namespace: "", lease_ms: 30_000 };
    await kv.client.set(kv.key("pod", facts.name), JSON.stringify(lease));
    await kv.client.zadd(kv.jobKey("pods"), String(Date.now()), facts.name);
  }
  env = { SERVICE_PORT: new URL(chatter.url).port, SERVICE_API_KEY: key };
  await until(
    async () =>
      (await worker.client.list_instances()).instances.filter((one) => one.address !== null).length === 3,
  );
});

const headless = async (args: string[], more: Record<string, string> = {}) => {
  const { code, stdout, stderr } = await svc(["agents", "--headless", ...args], { env: { ...env, ...more } });
  return { code, stdout, stderr, body: (stdout === "" ? null : JSON.parse(stdout)) as never };
};

/** All that a failure may print: nothing on stdout, and no escape sequence. */
const expectFailure = (
  { code, stdout, stderr }: { code: number | null; stdout: string; stderr: string },
  exit: number,
  message: RegExp,
): void => {
  expect({ code, stdout, stderr }).toEqual({
    code: exit,
    stdout: "",
    stderr: expect.stringMatching(message),
  });
  expect(stderr).not.toContain("\u001b");
};

const byName = ({ remotes }: Listed): Record<string, Remote> =>
  Object.fromEntries(remotes.map((remote) => [remote.name, remote]));

describe.concurrent("through the store", () => {
  test("list has every instance with its kind and address; one that cannot be reached has its fault", async () => {
    const { code, body, stderr } = await headless(["list"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const listed = byName(body);
    expect(Object.keys(listed)).toEqual(["chat-0", "old-0", "work-0", "work-1"]);
    expect(listed).toMatchObject({
      "chat-0": { kind: "agent", source: "store", url: chatter.url, state: "ready", fault: null },
      "work-0": { kind: "orchestrator", url: worker.url, state: "ready", instance: { max_parallel_jobs: 3 } },
      "old-0": {
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
      headless(said),
      headless([...said, "--no-wait"]),
      headless(["chat", "--pod", "chat-0", "--message", "scenario: api-error {}"]),
      headless(["chat", "--pod", "work-0", "--message", "hello"]),
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

  test("job submits and prints the job; an agent is refused with 2", async () => {
    const { path } = await makeRemote();
    const asked = ["--task", "scenario: noop", "--repo", path];
    const [done, wrong, bad] = await Promise.all([
      headless(["job", "--pod", "work-0", ...asked]),
      headless(["job", "--pod", "chat-0", ...asked]),
      headless(["job", "--pod", "work-0", "--task", "x", "--repo", "ftp://no"]),
    ]);
    expect(done).toMatchObject({ code: 0, stderr: "", body: { success: true, job: { repo_url: path } } });
    const { id } = (done.body as { job: { id: string } }).job;
    expect((await chatter.client.get_job({ job_id: id })).job.id).toBe(id);
    expectFailure(wrong, 2, /^svc: chat-0 is an agent: use chat/);
    expectFailure(bad, 2, /repo/);
  });

  test("sync prints the result by target, and ends with 1 when one could not be fetched", async () => {
    const [good, bad] = await Promise.all(
      ["chat-0", "work-0"].map((pod) => headless(["sync", "--pod", pod])),
    );
    expect(good).toMatchObject({ code: 0, stderr: "", body: { hub: "skipped (no url)" } });
    expect(bad).toMatchObject({ code: 1, body: { hub: expect.stringMatching(/^error: /) } });
    expect(bad?.stderr).toMatch(/^svc: hub: error: /);
  });

  test("health is the instance's own; one that is not reached ends with 1", async () => {
    const [good, lost] = await Promise.all(
      ["work-0", "old-0"].map((pod) => headless(["health", "--pod", pod])),
    );
    expect(good).toMatchObject({ code: 0, stderr: "", body: { status: "ok", service: "svc" } });
    expectFailure(lost as never, 1, /^svc: old-0 publishes no address/);
  });

  test("without a service, or with a wrong key, it ends with 1 and says what to do", async () => {
    const [nobody, noKey, noTool] = await Promise.all([
      headless(["list"], { SERVICE_PORT: "9" }),
      headless(["health", "--pod", "chat-0"], { SERVICE_API_KEY: "wrong" }),
      headless(["list"], { SERVICE_PORT: "9", PATH: "/nonexistent" }),
    ]);
    expectFailure(nobody, 1, /No service answers at http:\/\/127\.0\.0\.1:9: start it with svc serve/);
    expectFailure(noKey, 1, /does not accept the API key that was sent: set SERVICE_API_KEY/);
    expectFailure(noTool, 1, /^svc: kubectl is not installed[^]*svc: No service answers/);
  });
});

describe.concurrent("what is not understood ends with 2", () => {
  test.each([
    [["chat", "--message", "hi"], /--pod is missing/],
    [["chat", "--pod", "chat-0"], /--message is missing/],
    [["job", "--pod", "work-0", "--repo", "a/b"], /--task is missing/],
    [["job", "--pod", "work-0", "--task", "x"], /--repo is missing/],
    [["local"], /--agent is missing/],
    [["dance"], /choices are list, chat, job, sync, health, local|Allowed choices are list/],
    [[], /--headless needs a command, one of list, chat/],
    [["health", "--pod", "wrok-0"], /no instance wrok-0: there are chat-0, old-0, .*; did you mean work-0\?/],
    [["health", "--pod", "work"], /Several instances begin with work: work-0, work-1/],
    [["health", "--pod", "--context=prod\u001b[31m"], /There is no instance --context=prod/],
    [["list", "--agentihub-dir", "/nonexistent"], /no directory \/nonexistent\/agents/],
  ])("%j", async (args, message) => {
    expectFailure(await headless(args), 2, message);
  });

  test("svc agents without --headless", async () => {
    expectFailure(await svc(["agents", "list"], { env }), 2, /svc agents --headless list/);
  });
});

test.concurrent("local packages are listed with their faults, and local prints the configuration of one", async () => {
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
    headless(["list"], { HUB_DIR: hub, SERVICE_PORT: "9" }),
    headless(["local", "--agent", "writer", "--agentihub-dir", hub], { HUB_DIR: "/nonexistent" }),
    headless(["local", "--agent", "writter"], { SERVICE_HUB_PATH: hub }),
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

test.concurrent("with SERVICE_REMOTES only those are asked, each by itself: one that is lost or silent holds up none", async () => {
  const lost = `http://127.0.0.1:${await lastingPort()}`;
  const remotes = [worker.url, `${worker.url}/`, lost, silent].join(", ");
  const [listed, sick] = await Promise.all([
    headless(["list"], { SERVICE_REMOTES: remotes }),
    headless(["list"], { SERVICE_REMOTES: "http://user:secret@host" }),
  ]);
  expect(listed).toMatchObject({ code: 0, body: { faults: [] } });
  const host = (url: string): string => url.replace("http://", "");
  expect(byName(listed.body)).toMatchObject({
    [host(worker.url)]: {
      source: "list",
      kind: "orchestrator",
      state: "ready",
      instance: { name: "work-0" },
    },
    [host(lost)]: { state: "unreachable", fault: expect.stringContaining(`No service answers at ${lost}`) },
    [host(silent)]: { state: "unreachable", fault: expect.stringContaining("has not answered within 5 s") },
  });
  expect((listed.body as Listed).remotes).toHaveLength(3);
  expectFailure(sick, 1, /SERVICE_REMOTES .*must not hold credentials/);
});

describe.concurrent("through kubectl", () => {
  const pod = (name: string, more: object = {}) => ({
    metadata: { name, namespace: "svc" },
    spec: {
      containers: [{ name: "proxy" }, { name: "svc", ports: [{ name: "http", containerPort: 8211 }] }],
    },
    status: { phase: "Running", conditions: [{ type: "Ready", status: "True" }] },
    ...more,
  });
  let calls = 0;

  /** The stand-in with these pods. */
  const cluster = async (pods: object[], more: Record<string, string> = {}) => {
    const log = join(directory, `kubectl-${++calls}.log`);
    await writeFile(log, "");
    await writeFile(`${log}.pods`, JSON.stringify({ items: pods }));
    const targets = {
      "chat-0": Number(new URL(chatter.url).port),
      "work-0": Number(new URL(worker.url).port),
    };
    const recorded = async () =>
      (await readFile(log, "utf8"))
        .trim()
        .split("\n")
        .filter(Boolean)
        .map((line) => line.split("\t"))
        .map(([pid, ...args]) => ({ pid: Number(pid), args }));
    return {
      env: {
        PATH: `${join(import.meta.dirname, "kubectl")}${delimiter}${process.env["PATH"]}`,
        SERVICE_PORT: "9",
        KUBECTL_LOG: log,
        KUBECTL_PODS: `${log}.pods`,
        KUBECTL_TARGETS: JSON.stringify(targets),
        ...more,
      },
      recorded,
      asked: async () => (await recorded()).map(({ args }) => args),
    };
  };

  const current = ["config", "current-context"];
  const get = [
    ...["--context=kind-test", "--request-timeout=10s", "get", "pods"],
    ...["--selector=app.kubernetes.io/component=service", "--output=json"],
  ];
  const scope = ["--context=kind-test", "--namespace=svc"];
  const forward = (name: string): string[] => [
    ...scope,
    ...["port-forward", "--address=127.0.0.1", `pod/${name}`, ":8211"],
  ];

  test("pods on one store are asked through one forwarded port; those that do not run are listed as such", async () => {
    const waiting = pod("work-9", { status: { phase: "Pending" } });
    const leaving = pod("work-0", {
      metadata: { name: "work-0", namespace: "svc", deletionTimestamp: "2026-03-02T08:00:00Z" },
    });
    const { env: more, asked, recorded } = await cluster([leaving, waiting, pod("chat-0"), pod("none-0")]);
    const { code, body } = await headless(["list"], more);
    expect(code).toBe(0);
    expect(byName(body)).toMatchObject({
      "chat-0": {
        kind: "agent",
        source: "kubernetes",
        url: null,
        state: "ready",
        instance: { name: "chat-0" },
      },
      "work-0": { kind: "orchestrator", state: "draining" },
      "work-9": { state: "unreachable", fault: expect.stringContaining("The pod is Pending") },
      "none-0": { state: "unreachable", fault: expect.stringContaining("unable to forward port") },
    });
    expect(await asked()).toEqual([current, get, forward("chat-0"), forward("none-0")]);
    // The forwarded port is closed when svc has ended.
    for (const { pid } of await recorded()) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });

  test("chat, job and health go through a forwarded port, sync runs svc inside the instance", async () => {
    const results = JSON.stringify({ hooks: "ok", hub: "error: no" });
    const { env: more, asked } = await cluster([pod("chat-0"), pod("work-0")], { KUBECTL_EXEC: results });
    const said = ["chat", "--pod", "chat-0", "--message", "scenario: echo {}"];
    expect(await headless(said, more)).toMatchObject({ code: 0, body: { status: "completed" } });
    expect(await headless(["sync", "--pod", "work-0"], more)).toMatchObject({
      code: 1,
      body: JSON.parse(results) as object,
      stderr: "svc: hub: error: no\n",
    });
    const inside = ["exec", "pod/work-0", "--container=svc", "--", "svc", "hooks", "sync", "--json"];
    const listing = [current, get, forward("chat-0")];
    expect(await asked()).toEqual([...listing, forward("chat-0"), ...listing, [...scope, ...inside]]);
  });

  test("a pod whose name Kubernetes would not allow is refused, and nothing is done with it", async () => {
    for (const name of ["--all", "a\u001b[31m"]) {
      const { env: more, asked } = await cluster([pod(name)]);
      expectFailure(await headless(["list"], more), 1, /items\.0\.metadata\.name is no name of Kubernetes/);
      expect(await asked()).toEqual([current, get]);
    }
  });

  test("a kubectl that hangs is given up, and the store is asked instead", async () => {
    for (const verb of ["get", "port-forward"]) {
      const { env: more, recorded } = await cluster([pod("chat-0")], { KUBECTL_HANG: verb });
      const fleet = createFleet({ remotes: [], baseUrl: chatter.url, apiKey: key, env: more, patience: 3 });
      const { remotes, faults } = await fleet.list(new AbortController().signal);
      const [first] = remotes;
      if (verb === "get") {
        expect(faults).toEqual([expect.stringContaining("kubectl get has not answered within 3 s")]);
        expect(first).toMatchObject({ name: "chat-0", source: "store", state: "ready" });
      } else {
        const fault = "kubectl port-forward has not reached chat-0 within 3 s";
        expect(first).toMatchObject({ source: "kubernetes", state: "unreachable", fault });
      }
      for (const { pid } of await recorded()) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
    }
  });

  test("shell and log are kubectl's; of an instance that is known by its address there is neither", async () => {
    const { env: more } = await cluster([pod("chat-0")]);
    const fleet = createFleet({ remotes: [], baseUrl: chatter.url, apiKey: key, env: more });
    const [remote] = (await fleet.list(new AbortController().signal)).remotes;
    if (remote === undefined) throw new Error("there is no pod");
    expect(fleet.shell(remote)).toEqual({
      program: "kubectl",
      args: [...scope, "exec", "--stdin", "--tty", "pod/chat-0", "--container=svc", "--", "bash"],
    });
    expect(fleet.logs(remote)).toEqual({
      program: "kubectl",
      args: [...scope, "logs", "--follow", "--tail=200", "pod/chat-0", "--container=svc"],
    });
    expect(() => fleet.shell({ ...remote, source: "store" })).toThrow("log in to its machine");
  });
});
