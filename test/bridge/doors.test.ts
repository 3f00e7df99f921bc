import { appendFile, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { beforeAll, expect, test } from "vitest";
import { transcriptOperations, type TranscriptOperations } from "../../src/contract/transcript.ts";
import { toolNamesOf } from "../../src/contract/operation.ts";
import { startRedis } from "../redis.ts";
import { until } from "../until.ts";
import { bridge, bridgeEnvironment, bridgeProgram, recordedHome, serveBridge } from "./run-bridge.ts";

/* The program as its users have it: the 16 tools over each way in, with the official client. */

const key = "key-of-the-tests";
const named = { "x-api-key": key };

let home: string;
let url: string;
let output: { stderr: string };
let clients: Record<"mcp" | "sse" | "stdio", Client>;

const overHttp = async (at: string, path: "/mcp" | "/sse", headers: Record<string, string> = {}) => {
  const client = new Client({ name: "test", version: "1" });
  const Transport = path === "/mcp" ? StreamableHTTPClientTransport : SSEClientTransport;
  await client.connect(new Transport(new URL(at + path), { requestInit: { headers } }));
  return client;
};

beforeAll(async () => {
  home = await recordedHome();
  ({ url, output } = await serveBridge(home, { BRIDGE_API_KEYS: key }));
  const stdio = new Client({ name: "test", version: "1" });
  const env = bridgeEnvironment(home);
  await stdio.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [bridgeProgram, "serve"],
      env,
      stderr: "ignore",
    }),
  );
  clients = { mcp: await overHttp(url, "/mcp", named), sse: await overHttp(url, "/sse", named), stdio };
  return async () => {
    for (const client of Object.values(clients)) await client.close();
  };
});

type Name = keyof TranscriptOperations;

const call = async (client: Client, name: Name, args: Record<string, unknown> = {}) => {
  const result = await client.callTool({ name, arguments: args });
  const body = result.structuredContent as Record<string, unknown>;
  expect(JSON.parse((result.content[0] as { text: string }).text)).toEqual(body);
  return { body, isError: result.isError ?? false };
};

const firstSession = async (): Promise<string> => {
  const { body } = await call(clients.mcp, "search_sessions", { query: "walrus", include_active: true });
  return (body["matches"] as { session_id: string }[])[0]?.session_id ?? "";
};

test("each way in offers the 16 tools, each with a schema of its results", async () => {
  for (const client of Object.values(clients)) {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(toolNamesOf(transcriptOperations));
    expect(tools).toHaveLength(16);
    for (const { outputSchema } of tools) expect(outputSchema).toMatchObject({ type: "object" });
  }
});

test("each way in gives the same answers", async () => {
  const session_id = await firstSession();
  const asked: [Name, Record<string, unknown>][] = [
    ["list_sessions", {}],
    ["get_session", { session_id }],
    ["get_session_segment", { session_id, offset: 1, limit: 2 }],
    ["get_session_actions", { session_id, action_types: "tool_use,command,error" }],
    ["search_sessions", { query: "walrus", include_active: true }],
    ["search_semantic", { query: "walrus", include_active: true }],
    ["generate_summary", { session_id }],
    ["restore_session", { session_id }],
    ["list_memory_files", {}],
    ["list_plans", {}],
    ["search_history", {}],
  ];
  for (const [name, args] of asked) {
    const answers = await Promise.all(Object.values(clients).map((client) => call(client, name, args)));
    for (const { body, isError } of answers) {
      expect({ name, isError, body }).toEqual({ name, isError: false, body: answers[0]?.body });
      expect(() => transcriptOperations[name].output.parse(body)).not.toThrow();
    }
  }
});

test("each way in says the same of what is not there and of what cannot be asked", async () => {
  const asked: [Name, Record<string, unknown>, string][] = [
    ["get_session", { session_id: "../../etc/passwd" }, "session_not_found"],
    ["get_memory_file", { project: "..", filename: "/etc/passwd" }, "memory_not_found"],
    ["get_plan", { codename: "\0" }, "plan_not_found"],
    ["search_sessions", { query: '"' }, "invalid_request"],
    ["list_sessions", { limit: -1 }, "invalid_request"],
    ["list_sessions", { nonsense: 1 }, "invalid_request"],
    ["get_dispatch_job", { job_id: "x" }, "orchestrator_unavailable"],
  ];
  for (const [name, args, code] of asked)
    for (const client of Object.values(clients)) {
      const { body, isError } = await call(client, name, args);
      expect({ name, isError, code: body["code"] }).toEqual({ name, isError: true, code });
    }
});

test("sessions are resources, too", async () => {
  const { resources } = await clients.mcp.listResources();
  const session = resources.find(({ uri }) => uri.startsWith("session://"));
  const { contents } = await clients.mcp.readResource({ uri: session?.uri ?? "" });
  expect(contents[0]).toMatchObject({ mimeType: "text/markdown" });
});

test("without the key nothing but /health answers", async () => {
  expect(await (await fetch(`${url}/health`)).json()).toEqual({ status: "ok" });
  for (const path of ["/mcp", "/sse", "/messages", "/nowhere"]) {
    const answer = await fetch(url + path);
    expect({ path, status: answer.status, body: await answer.json() }).toEqual({
      path,
      status: 401,
      body: { error: "Invalid or missing API key" },
    });
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
  }
});

test("a page of another origin, and another host name, are refused", async () => {
  expect(
    (await fetch(`${url}/mcp`, { method: "POST", headers: { ...named, origin: "http://evil.example" } }))
      .status,
  ).toBe(403);
});

test("a line that is appended is found soon, without being asked to collect", async () => {
  const project = join(home, ".claude", "projects");
  const [directory = ""] = await readdir(project);
  const file = join(project, directory, "11111111-1111-4111-8111-111111111111.jsonl");
  const line = {
    type: "user",
    uuid: "u1",
    sessionId: "s",
    cwd: "/home/user/app",
    timestamp: new Date().toISOString(),
    message: { role: "user", content: "a rhinoceros" },
  };
  await appendFile(file, `${JSON.stringify(line)}\n`);
  const args = { query: "rhinoceros", include_active: true };
  await until(async () => (await call(clients.mcp, "search_sessions", args)).body["total"] === 1);
});

test("each read leaves a line that says who read what, and no key", async () => {
  await call(clients.mcp, "get_session", { session_id: await firstSession() });
  await until(() => output.stderr.includes('"tool":"get_session"'));
  expect(output.stderr).toMatch(/"principal":"[\da-f]{16}"/);
  expect(output.stderr).not.toContain(key);
});

test("over a key-value store the commands answer as over SQLite", async () => {
  const redis = await startRedis();
  const shared = { KV_URL: redis.url };
  for (const args of [["sessions"], ["search", "walrus"]]) {
    const own = await bridge(home, [...args, "--json"]);
    const answer = await bridge(home, [...args, "--json"], shared);
    expect({ args, ...answer, stderr: "" }).toEqual({ args, ...own, stderr: "" });
    expect(own.code).toBe(0);
  }
  // An instance that has no files reads what the other one collected.
  const elsewhere = await recordedHome();
  await rm(join(elsewhere, ".claude"), { recursive: true });
  const { stdout } = await bridge(elsewhere, ["search", "walrus"], shared);
  expect(stdout).toContain("»walrus«");
});

const locked = { OAUTH_ISSUER_URL: "https://x.example", OAUTH_CLIENT_ID: "one" };

test.each([
  ["beyond loopback without keys", { BRIDGE_HOST: "0.0.0.0" }, "BRIDGE_API_KEYS is not set"],
  ["with OAuth at an insecure URL", { OAUTH_ISSUER_URL: "http://x.example" }, "it must be an https:// URL"],
  ["with a client that may go nowhere", locked, "OAUTH_ALLOWED_REDIRECT_URIS"],
  ["with a wrong value", { BRIDGE_PORT: "x" }, "BRIDGE_PORT"],
])("a start %s is refused with what to do", async (_, env: Record<string, string>, message) => {
  const { code, stderr } = await bridge(home, ["serve"], { BRIDGE_TRANSPORT: "sse", ...env });
  expect(code).toBe(1);
  expect(stderr).toContain(message);
});

test("SIGTERM ends it in order", async () => {
  const service = await serveBridge(await recordedHome());
  expect((await service.stop()).code).toBe(0);
});
