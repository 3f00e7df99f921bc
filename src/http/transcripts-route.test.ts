import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import type { Log } from "../lib/log.ts";
import { serveRoutes } from "./app.ts";
import { listen, type Listening } from "./server.ts";
import { transcriptsRoute } from "./transcripts-route.ts";

/* A transcript service that does what a test says, behind the real HTTP server. */

const apiKey = "key-of-the-service";
let server: Listening;
let asked: { request: IncomingMessage; body: string; isClosed: boolean }[] = [];
let answer: (response: ServerResponse) => void;
const lines: object[] = [];

const note = (line: object): void => void lines.push(line);
const log: Log = { debug: note, info: note, warn: note, error: note };

const bridge = createServer((request, response) => {
  const seen = { request, body: "", isClosed: false };
  asked.push(seen);
  response.on("close", () => (seen.isClosed = true));
  request.setEncoding("utf8").on("data", (text: string) => (seen.body += text));
  request.on("end", () => answer(response));
});

beforeAll(async () => {
  await once(bridge.listen(0, "127.0.0.1"), "listening");
  const bridgeUrl = `http://127.0.0.1:${(bridge.address() as AddressInfo).port}/`;
  const app = serveRoutes([transcriptsRoute({ bridgeUrl, patienceMs: 300 })], {
    settings: { host: "127.0.0.1", apiKeys: [apiKey] },
    log,
    newRequestId: () => "request-1",
  });
  server = await listen(app, { host: "127.0.0.1", port: 0 });
});
beforeEach(() => void (asked = []));
afterAll(async () => {
  await server.close(0);
  bridge.close();
  bridge.closeAllConnections();
});

const json = (status: number, body: string, headers: Record<string, string> = {}) => {
  answer = (response) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(body);
};

const ask = (headers: Record<string, string> = {}, signal?: AbortSignal) =>
  fetch(`${server.url}/transcripts/mcp`, {
    method: "POST",
    headers: { "x-api-key": apiKey, "content-type": "application/json", ...headers },
    body: '{"id": 1}',
    ...(signal && { signal }),
  });

test("a request is passed on with the bridge's own key and the headers of MCP, and nothing else of the caller", async () => {
  json(200, '{"result": "é"}');
  const response = await ask({
    "x-bridge-key": "key-of-the-bridge",
    "mcp-method": "tools/call",
    cookie: "a=b",
  });
  expect([response.status, await response.text()]).toEqual([200, '{"result": "é"}']);
  expect(asked).toMatchObject([{ body: '{"id": 1}', request: { method: "POST", url: "/mcp" } }]);
  const { headers = {} } = asked[0]?.request ?? {};
  expect(headers).toMatchObject({ authorization: "Bearer key-of-the-bridge", "mcp-method": "tools/call" });
  expect([headers["x-api-key"], headers.cookie, headers["x-bridge-key"]]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(JSON.stringify(lines)).not.toContain("key-of-the-bridge");
});

test("without the service's key, or with a body that is no JSON, nothing is passed on", async () => {
  expect((await ask({ "x-api-key": "other", "x-bridge-key": apiKey })).status).toBe(401);
  expect((await ask({ "content-type": "text/plain" })).status).toBe(400);
  expect(asked).toEqual([]);
});

test.each([
  ["asks for a key", {}],
  ["does not accept this key", { "x-bridge-key": "wrong" }],
])("a bridge that refuses says that it %s", async (sentence, headers) => {
  json(401, "{}");
  const response = await ask(headers);
  expect(response.status).toBe(403);
  expect(await response.json()).toMatchObject({
    code: "bridge_key_refused",
    error: expect.stringContaining(sentence),
  });
});

const stalled = (response: ServerResponse): void =>
  void response.writeHead(200, { "content-type": "application/json" }).write("{");
const endless = (response: ServerResponse): void => {
  response.writeHead(200, { "content-type": "application/json" });
  const more = (): void => {
    while (response.write(" ".repeat(65_536)));
  };
  response.on("drain", more);
  more();
};

test.each<[string, string, () => void]>([
  ["redirects", "answered 307", () => json(307, "", { location: "/elsewhere" })],
  ["is another program", "answered 200", () => json(200, "<p>", { "content-type": "text/html" })],
  ["fails", "answered 500", () => json(500, "{}")],
  ["says nothing", "did not answer within", () => (answer = () => {})],
  ["stops in the middle", "did not answer within", () => (answer = stalled)],
  ["never stops", "more than 1,048,576 bytes", () => (answer = endless)],
  ["breaks off", "does not answer", () => (answer = ({ socket }) => socket?.destroy())],
])("a bridge that %s is a failure, and its connection is not kept waiting", async (_, sentence, prepare) => {
  prepare();
  const response = await ask({ "x-bridge-key": "key-of-the-bridge" });
  expect(response.status).toBe(502);
  const failure = (await response.json()) as { error: string };
  expect(failure).toMatchObject({ success: false, code: "bridge_unavailable" });
  expect(failure.error).toContain(sentence);
  expect(asked).toHaveLength(1);
  await until(() => asked[0]?.isClosed);
});

test("a caller that leaves takes its question back from the bridge", async () => {
  answer = () => {};
  const caller = new AbortController();
  const left = ask({}, caller.signal).catch(() => "left");
  await until(() => asked.length === 1);
  caller.abort();
  expect(await left).toBe("left");
  await until(() => asked[0]?.isClosed);
  await until(() => JSON.stringify(lines.at(-1)).includes("499"));
});
