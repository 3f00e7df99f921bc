import { readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { createFleet } from "../../src/fleet/create-fleet.ts";
import { createCluster } from "../cluster.ts";
import { sampleFacts } from "../ports/instances-suite.ts";
import { startRedis } from "../redis.ts";
import type { Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { byName, expectFailure, headless, playInstances } from "./headless.ts";

/* svc agents --headless through a kubectl that records what it is asked, and forwards its ports to a real instance. */

let directory: string;
let chatter: Service;

beforeAll(async () => {
  directory = await temporaryDirectory();
  const redis = await startRedis();
  const cluster = await createCluster({ kvUrl: redis.url, env: { AGENT_MODE: "true" } });
  chatter = await cluster.start("chat-0");
  await playInstances(redis.url, [sampleFacts({ name: "work-0" })]);
});

const pod = (name: string, more: object = {}) => ({
  metadata: { name, namespace: "svc", labels: { "app.kubernetes.io/component": "service" } },
  status: { phase: "Running" },
  ...more,
});
let clusters = 0;

/** The stand-in with these pods. */
const cluster = async (pods: object[], more: Record<string, string> = {}) => {
  const log = join(directory, `kubectl-${++clusters}.log`);
  await writeFile(log, "");
  await writeFile(`${log}.pods`, JSON.stringify({ items: pods }));
  const port = Number(new URL(chatter.url).port);
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
      KUBECTL_TARGETS: JSON.stringify({ "chat-0": port, "renamed-0": port }),
      ...more,
    },
    recorded,
    asked: async () => (await recorded()).map(({ args }) => args),
  };
};

const current = ["config", "current-context"];
const get = ["--context=kind-test", "--request-timeout=10s", "get", "pods", "--output=json"];
const scope = ["--context=kind-test", "--namespace=svc"];
const forward = (name: string, port = "http"): string[] => {
  return [...scope, "port-forward", "--address=127.0.0.1", `pod/${name}`, `:${port}`];
};

test.concurrent("pods on one store are asked through one forwarded port; those that do not run are listed as such", async () => {
  const waiting = pod("work-9", { status: { phase: "Pending" } });
  const { env, asked, recorded } = await cluster([
    waiting,
    ...["chat-0", "none-0", "renamed-0", "work-0"].map((name) => pod(name)),
  ]);
  const { code, body } = await headless(["list"], env);
  expect(code).toBe(0);
  expect(byName(body)).toMatchObject({
    "chat-0": {
      kind: "agent",
      source: "kubernetes",
      url: null,
      state: "ready",
      instance: { name: "chat-0" },
    },
    "work-0": { kind: "orchestrator", state: "ready", instance: { name: "work-0" } },
    "work-9": { state: "unreachable", fault: expect.stringContaining("The pod is Pending") },
    "none-0": {
      state: "unreachable",
      fault: expect.stringContaining("unable to forward port"),
    },
    // Its SERVICE_POD_NAME is not the name of its pod.
    "renamed-0": { state: "ready", instance: { name: "chat-0" } },
  });
  const calls = await asked();
  expect(calls.slice(0, 3)).toEqual([current, get, forward("chat-0")]);
  expect(new Set(calls.slice(3))).toEqual(new Set([forward("none-0"), forward("renamed-0")]));
  // The forwarded port is closed when svc has ended.
  for (const { pid } of await recorded()) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});

test.concurrent("chat, job and health go through a forwarded port, sync runs svc inside the instance", async () => {
  const results = JSON.stringify({ hooks: "ok", hub: "error: no" });
  const { env, asked } = await cluster([pod("chat-0"), pod("work-0")], { KUBECTL_EXEC: results });
  const said = ["chat", "--pod", "chat-0", "--message", "scenario: echo {}"];
  expect(await headless(said, env)).toMatchObject({ code: 0, body: { status: "completed" } });
  expect(await headless(["sync", "--pod", "work-0"], env)).toMatchObject({
    code: 1,
    body: JSON.parse(results) as object,
    stderr: "svc: hub: error: no\n",
  });
  const inside = ["exec", "pod/work-0", "--", "svc", "hooks", "sync", "--json"];
  const listing = [current, get, forward("chat-0")];
  expect(await asked()).toEqual([...listing, forward("chat-0"), ...listing, [...scope, ...inside]]);
});

test.concurrent("an instance is found by its label, or by the transport in its environment", async () => {
  const unlabelled = (name: string, variable: object) => ({
    metadata: { name, namespace: "svc" },
    spec: { containers: [{ name: "other" }, { name: "svc", env: [{ name: "A" }, variable] }] },
    status: { phase: "Running" },
  });
  const { env, asked } = await cluster([
    unlabelled("chat-0", { name: "SERVICE_TRANSPORT", value: "sse" }),
    unlabelled("web-0", { name: "PORT", value: "80" }),
  ]);
  const { body } = await headless(["list"], env);
  expect(byName(body)).toEqual({ "chat-0": expect.objectContaining({ state: "ready", kind: "agent" }) });
  expect(await asked()).toEqual([current, get, forward("chat-0", "8200")]);
});

test.concurrent("a pod whose name Kubernetes would not allow is refused, and nothing is done with it", async () => {
  for (const name of ["--all", "a\u001b[31m"]) {
    const { env, asked } = await cluster([pod(name)]);
    expectFailure(await headless(["list"], env), 1, /items\.0\.metadata\.name is no name of Kubernetes/);
    expect(await asked()).toEqual([current, get]);
  }
});

test.concurrent("a kubectl that hangs is given up and ended; the service is asked, or the pod listed with the fault", async () => {
  const fleetWhere = async (verb: string) => {
    const { env, recorded } = await cluster([pod("chat-0")], { KUBECTL_HANG: verb });
    const fleet = createFleet({ remotes: [], baseUrl: chatter.url, apiKey: undefined, env, patience: 5 });
    const found = await fleet.list(new AbortController().signal);
    for (const { pid } of await recorded()) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
    return found;
  };
  const [noPods, noPort] = await Promise.all([fleetWhere("get"), fleetWhere("port-forward")]);
  expect(noPods.faults).toEqual([expect.stringContaining("kubectl get has not answered within 5 s")]);
  expect(noPods.remotes[0]).toMatchObject({ name: "chat-0", source: "store", state: "ready" });
  const fault = "kubectl port-forward has not reached chat-0 within 5 s";
  expect(noPort.remotes).toMatchObject([{ source: "kubernetes", state: "unreachable", fault }]);
});

test.concurrent("shell and log are kubectl's; of an instance that is known by its address there is neither", async () => {
  const { env } = await cluster([pod("chat-0")]);
  const fleet = createFleet({ remotes: [], baseUrl: chatter.url, apiKey: undefined, env });
  const [remote] = (await fleet.list(new AbortController().signal)).remotes;
  if (remote === undefined) throw new Error("there is no pod");
  expect(fleet.shell(remote)).toEqual({
    program: "kubectl",
    args: [...scope, "exec", "--stdin", "--tty", "pod/chat-0", "--", "bash"],
  });
  expect(fleet.logs(remote)).toEqual({
    program: "kubectl",
    args: [...scope, "logs", "--follow", "--tail=200", "pod/chat-0"],
  });
  expect(() => fleet.shell({ ...remote, source: "store" })).toThrow("log in to its machine");
});
