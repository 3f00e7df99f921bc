import { appendFile, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { dirname, join } from "node:path";
import {
  Client,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { beforeAll, expect, test } from "vitest";
import { transcriptOperations, type TranscriptOperations } from "../../src/contract/transcript.ts";
import { toolNamesOf } from "../../src/contract/operation.ts";
import { asks } from "../asks.ts";
import { startRedis } from "../redis.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { bridge, bridgeEnvironment, bridgeProgram, recordedHome, serveBridge } from "./run-bridge.ts";
import { dispatched, documents, rows, type Row } from "./tool-rows.ts";

/* The program as its users have it: the 16 tools over each way in, with the official client. */

const key = "key-of-the-tests";
const named = { "x-api-key": key };

let home: string;
let url: string;
let served: Awaited<ReturnType<typeof serveBridge>>;
let clients: Record<"mcp" | "sse" | "stdio", Client>;
let known: { session_id: string; job_id: string };

/** A client that has read the list of tools checks each result against its tool's schema. */
const connected = async (transport: Transport): Promise<Client> => {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(toolNamesOf(transcriptOperations));
  for (const { outputSchema } of tools) expect(outputSchema).toMatchObject({ type: "object" });
  return client;
};

beforeAll(async () => {
  const service = await startService({ env: { SERVICE_API_KEYS: key } });
  home = await recordedHome();
  for (const [path, content] of documents) {
    await mkdir(join(home, ".claude", dirname(path)), { recursive: true });
    await writeFile(join(home, ".claude", path), content);
  }
  const orchestrator = { BRIDGE_ORCHESTRATOR_URL: service.url, BRIDGE_ORCHESTRATOR_KEY: key };
  served = await serveBridge(home, { BRIDGE_API_KEYS: key, ...orchestrator });
  ({ url } = served);
  const env = bridgeEnvironment(home, orchestrator);
  const args = [bridgeProgram, "serve"];
  const requestInit = { headers: named };
  clients = {
    mcp: await connected(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit })),
    sse: await connected(new SSEClientTransport(new URL(`${url}/sse`), { requestInit })),
    stdio: await connected(
      new StdioClientTransport({ command: process.execPath, args, env, stderr: "ignore" }),
    ),
  };
  await call(clients.mcp, "collect_now");
  const query = { query: "walrus", include_active: true };
  const { body: found } = await call(clients.mcp, "search_sessions", query);
  const [match] = found["matches"] as { session_id: string }[];
  const { body: sent } = await call(clients.mcp, "dispatch_task", dispatched);
  known = { session_id: match?.session_id ?? "", job_id: sent["job_id"] as string };
  await asks(service).ended(known.job_id);
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

test.each(Object.entries(rows) as [Name, Row][])(
  "%s answers and refuses alike on each way in",
  async (name, { asked, answer, refused, code, varies = [] }) => {
    const ask = (args: Record<string, unknown>) =>
      Promise.all(Object.values(clients).map((client) => call(client, name, args)));
    const [first, ...others] = (await ask(asked(known))).map(({ body, isError }) => ({
      isError,
      body: { ...body, ...Object.fromEntries(varies.map((field) => [field, "differs"])) },
    }));
    expect(first).toMatchObject({ isError: false, body: { success: true, ...answer } });
    for (const other of others) expect(other).toEqual(first);
    const [refusal, ...more] = await ask(refused(known));
    expect(refusal).toMatchObject({ isError: true, body: { success: false, code } });
    for (const other of more) expect(other).toEqual(refusal);
  },
);

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

test("/health answers whichever host it is asked as; a page of another origin is refused", async () => {
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  get(`${url}/health`, { headers: { host: "bridge.internal:8100" } }, (answer) => {
    answer.resume();
    resolve(answer.statusCode);
  });
  expect(await promise).toBe(200);
  const headers = { ...named, origin: "http://evil.example" };
  expect((await fetch(`${url}/mcp`, { method: "POST", headers })).status).toBe(403);
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
  await call(clients.mcp, "get_session", { session_id: known.session_id });
  const { output } = served;
  await until(() => output.stderr.includes('"tool":"get_session"'));
  expect(output.stderr).toMatch(/"principal":"[\da-f]{16}"/);
  expect(output.stderr).not.toContain(key);
});

test("over a key-value store the commands answer as over SQLite", async () => {
  const redis = await startRedis();
  const shared = { KV_URL: redis.url };
  const search = ["search", "walrus", "--json"];
  const own = await bridge(home, search);
  expect({ ...(await bridge(home, search, shared)), stderr: "" }).toEqual({ ...own, code: 0, stderr: "" });
  // An instance that has no files reads what the other one collected.
  const elsewhere = await recordedHome();
  await rm(join(elsewhere, ".claude"), { recursive: true });
  const { stdout } = await bridge(elsewhere, ["search", "walrus"], shared);
  expect(stdout).toContain("»walrus«");
});

test.each([
  ["beyond loopback without keys", { BRIDGE_HOST: "0.0.0.0" }, "BRIDGE_API_KEYS is not set"],
  ["with OAuth at an insecure URL", { OAUTH_ISSUER_URL: "http://x.example" }, "it must be an https:// URL"],
  ["with a wrong value", { BRIDGE_PORT: "x" }, "BRIDGE_PORT"],
])("a start %s is refused with what to do", async (_, env: Record<string, string>, message) => {
  const { code, stderr } = await bridge(home, ["serve"], { BRIDGE_TRANSPORT: "sse", ...env });
  expect(code).toBe(1);
  expect(stderr).toContain(message);
});

test("SIGTERM ends it in order", async () => {
  expect((await served.stop()).code).toBe(0);
});
