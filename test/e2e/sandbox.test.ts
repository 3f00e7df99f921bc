import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { post, saying } from "../chat/asking.ts";
import { svc } from "../cli/run-svc.ts";
import { afterFile } from "../cleanup.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

/** What a user sees of the sandbox: what was refused, and how to allow it. */
let service: Service;
let home: string;
/** A service of this machine that the operator allows. */
let database: string;

beforeAll(async () => {
  home = await temporaryDirectory();
  const server = createServer((socket) => socket.end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterFile(() => void server.close());
  database = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const profiles = join(home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  const write = (name: string, text: string) => writeFile(join(profiles, `${name}.yml`), text);
  await write("open", "extends: code\nallow_host: true\nsandbox: {hosts: [named.invalid], tmp: 64M}\n");
  await write("greedy", `extends: code\nsandbox: {read: [${home}]}\n`);
  await write("wrong", "extends: code\nsandbox: {hosts: ['http://a'], memory: much, network: all}\n");
  service = await startService({
    home,
    env: {
      AGENT_MODE: "true",
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "reaching-agent.mjs"),
      SERVICE_AGENT_SANDBOX_HOSTS: database,
      // Where the agent's own modules are.
      SERVICE_AGENT_SANDBOX_READ: join(import.meta.dirname, "../fake-agent"),
    },
  });
});

const events = async (id: string) => {
  const text = await (await fetch(`${service.url}/jobs/${id}/events`)).text();
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data) as { type: string });
};

test("what the agent is refused is told at once, counted at the end, and shown with the way to allow it", async () => {
  const job = await asks(service).run({
    task: `reach: registry.invalid:443 registry.invalid:443 other.invalid:8443 127.0.0.1:1 ${database}`,
  });
  expect(job.output).toBe(
    `registry.invalid:443 403\nregistry.invalid:443 403\nother.invalid:8443 403\n127.0.0.1:1 403\n${database} 200`,
  );
  expect(job.sandbox).toEqual({
    mode: "bwrap",
    network: "hosts",
    limits: "none",
    denied: [
      { kind: "host", name: "registry.invalid:443", count: 2, allow: "registry.invalid" },
      { kind: "host", name: "other.invalid:8443", count: 1, allow: "other.invalid:8443" },
      { kind: "host", name: "127.0.0.1:1", count: 1, allow: "127.0.0.1:1" },
    ],
  });
  const denied = (await events(job.id)).filter(({ type }) => type === "denied");
  expect(denied).toMatchObject([
    {
      at_end: false,
      count: 1,
      message:
        "The agent wanted registry.invalid:443 and was refused. Allow it with sandbox.hosts in the profile, or svc run --allow-host registry.invalid",
    },
    { at_end: false, name: "other.invalid:8443" },
    { at_end: false, message: expect.stringContaining("SERVICE_AGENT_SANDBOX_HOSTS=127.0.0.1:1") as unknown },
    { at_end: true, name: "registry.invalid:443", count: 2 },
    { at_end: true, name: "other.invalid:8443", count: 1 },
    { at_end: true, name: "127.0.0.1:1", count: 1 },
  ]);
  const env = { SERVICE_PORT: new URL(service.url).port };
  const { stdout } = await svc(["job", job.id], { env });
  expect(stdout).toMatch(/registry\.invalid:443, 2 times: allow registry\.invalid$/m);
  expect(stdout).toMatch(/^Sandbox +bwrap, network: hosts$/m);
  const logs = await svc(["logs", job.id], { env });
  expect(logs.stdout).toContain("svc run --allow-host registry.invalid");
});

test("a submission names hosts where the profile lets it, and a retry names them again", async () => {
  const env = { SERVICE_PORT: new URL(service.url).port };
  const run = (profile: string, host: string) =>
    svc(
      ["run", "reach: asked.invalid:443 named.invalid:443", "--no-repo", "-p", profile, "--allow-host", host],
      {
        env,
      },
    );
  const refused = await run("code", "asked.invalid");
  expect(refused).toMatchObject({ code: 2, stdout: "" });
  expect(refused.stderr).toMatch(
    /--allow-host: the profile code lets no task name hosts; put allow_host: true/,
  );
  expect((await run("open", "http://asked.invalid")).stderr).toMatch(/--allow-host: "http:.* is no host/);
  const accepted = await run("open", "asked.invalid");
  expect(accepted.code).toBe(0);
  // Both are let through, and do not exist.
  const job = await asks(service).ended(accepted.stdout.trim());
  expect(job).toMatchObject({
    output: "asked.invalid:443 502\nnamed.invalid:443 502",
    allow_hosts: ["asked.invalid"],
  });
  expect(job.sandbox).toMatchObject({ network: "hosts", denied: [] });
  const again = await svc(["retry", job.id], { env });
  expect(await asks(service).ended(again.stdout.trim())).toMatchObject({ allow_hosts: ["asked.invalid"] });
});

test("a profile whose sandbox is wrong, or names what is the service's alone, is listed with its fault", async () => {
  const { profiles } = await service.client.list_profiles({});
  const faults = Object.fromEntries(profiles.map(({ name, error }) => [name, error]));
  expect(faults["open"]).toBeNull();
  expect(faults["greedy"]).toMatch(/sandbox\.read names .*, and no agent may have /);
  expect(faults["wrong"]).toMatch(/sandbox\.hosts "http:\/\/a" is no host/);
  expect(faults["wrong"]).toMatch(/sandbox\.memory must be bytes, or like 300M or 2G/);
  expect(faults["wrong"]).toMatch(/unknown key sandbox\.network/);
});

test("what a turn of a chat is refused is logged, and counted on its conversation", async () => {
  const asked = { headers: { "x-conversation-id": "one" } };
  for (const count of [1, 2]) {
    const answer = await post(service, saying("reach: chat.invalid:443 chat.invalid:443"), asked);
    expect(await answer.text()).toContain("chat.invalid:443 403");
    await until(async () => (await deniedOnRecord()) === count * 2, {
      what: `${count * 2} refusals on record`,
    });
  }
  expect(service.output.stderr).toMatch(/"level":"warn".*The agent wanted chat\.invalid:443 and was refused/);
});

const deniedOnRecord = async (): Promise<number | undefined> => {
  const directory = join(home, ".service", "jobs");
  const files = (await readdir(directory, { recursive: true })).filter((name) =>
    /conv.*[0-9a-f]{64}/.test(name),
  );
  for (const file of files) {
    const text = await readFile(join(directory, file), "utf8").catch(() => "");
    const found = /"denied":\s*(\d+)/.exec(text);
    if (found !== null) return Number(found[1]);
  }
  return undefined;
};

test("a conversation's agent reads its own directory, and not that of another", async () => {
  const say = async (conversation: string, text: string): Promise<string> =>
    (await post(service, saying(text), { headers: { "x-conversation-id": conversation } })).text();
  const places = (): Promise<string[]> => readdir(workspaces);
  const workspaces = join(home, ".service", "workspaces", "default");
  const before = await places();
  await say("mine", "read: /nowhere");
  const mine = (await places()).filter((name) => !before.includes(name));
  for (const name of await places()) await writeFile(join(workspaces, name, "note.txt"), `note of ${name}`);
  expect(mine.length).toBeGreaterThan(0);
  const told: string[] = [];
  for (const name of await places())
    told.push(await say("mine", `read: ${join(workspaces, name, "note.txt")}`));
  expect(told.filter((text) => text.includes("note of"))).toHaveLength(1);
  expect(told.filter((text) => text.includes("ENOENT"))).toHaveLength(told.length - 1);
});

test("/ready says what agents are kept in", async () => {
  const { checks } = (await (await fetch(`${service.url}/ready`)).json()) as { checks: { name: string }[] };
  expect(checks).toContainEqual({
    name: "sandbox",
    status: "ok",
    message: "Each agent runs in namespaces of its own (bubblewrap)",
  });
});
