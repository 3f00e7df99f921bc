import { getEventListeners, once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { until } from "../../test/until.ts";
import { connected, rpc, startDoors, toolCall } from "./mcp.fixture.ts";

type Doors = Awaited<ReturnType<typeof startDoors>>;

const hello = {
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: { protocolVersion: "2024-11-05", capabilities: {}, clientInfo: { name: "raw", version: "1" } },
};

/** An open stream on /sse with all it has said. */
const opened = async ({ url }: Doors, path = "/sse", headers: Record<string, string> = {}) => {
  const leaving = new AbortController();
  const answer = await fetch(url + path, { headers, signal: leaving.signal });
  const received = { text: "", ended: false };
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of answer.body ?? []) received.text += decoder.decode(chunk, { stream: true });
  })();
  reading.catch(() => undefined).finally(() => (received.ended = true));
  const endpoint = await until(() => /^event: endpoint\ndata: (.*)$/m.exec(received.text)?.[1]);
  return { answer, received, endpoint, post: url + endpoint, leave: () => leaving.abort() };
};

/** Sessions that have ended so far; each one is logged once. */
const ended = ({ lines }: Doors): number =>
  lines.filter(({ message }) => message === "session on /sse ended").length;

test("a client of 2024-11-05 gets the address to post to, and its answers on the stream", async () => {
  const doors = await startDoors();
  const session = await opened(doors);
  expect(Object.fromEntries(session.answer.headers)).toMatchObject({
    "content-type": "text/event-stream",
    "x-accel-buffering": "no",
    "cache-control": "no-cache, no-transform",
  });
  expect(session.endpoint).toMatch(/^\/messages\?sessionId=[\da-f-]{36}$/);
  const posted = await rpc(session.post, hello);
  expect([posted.status, await posted.text()]).toEqual([202, "Accepted"]);
  await until(() => session.received.text.includes('"protocolVersion":"2024-11-05"'));
  await rpc(session.post, toolCall("get_job", { job_id: "x" }));
  await until(() => session.received.text.includes("job_not_found"));
  // Without keys the id is what lets into the session.
  expect(JSON.stringify(doors.lines)).not.toContain(session.endpoint.slice(-36));
  session.leave();
});

test("a key in the address is in the address to post to, one in a header is not", async () => {
  const doors = await startDoors({ apiKeys: ["a key & more"] });
  const inAddress = await opened(doors, "/sse?api_key=a%20key%20%26%20more");
  expect(inAddress.endpoint).toMatch(/&api_key=a%20key%20%26%20more$/);
  expect((await rpc(inAddress.post, hello)).status).toBe(202);
  const inHeader = await opened(doors, "/sse", { "x-api-key": "a key & more" });
  expect(inHeader.endpoint).not.toContain("key");
  expect((await rpc(inHeader.post, hello)).status).toBe(401);
  expect(JSON.stringify(doors.lines)).not.toContain("more");
});

test("a silent stream sends pings", async () => {
  const session = await opened(await startDoors({ pingEveryMs: 10 }));
  await until(() => session.received.text.split(": ping\n\n").length > 3);
  session.leave();
});

test("an unknown session, or one of another caller, is 404 with a message", async () => {
  const doors = await startDoors({ apiKeys: ["key of one", "key of two"] });
  const session = await opened(doors, "/sse", { "x-api-key": "key of one" });
  const unknown = { success: false, error: expect.stringContaining("GET /sse"), code: "not_found" };
  for (const [path, key] of [
    [session.endpoint, "key of two"],
    ["/messages?sessionId=../../etc", "key of one"],
    ["/messages", "key of one"],
  ] as const) {
    const answer = await rpc(doors.url + path, hello, { "x-api-key": key });
    expect([answer.status, await answer.json()]).toEqual([404, unknown]);
  }
  expect((await rpc(session.post, hello, { "x-api-key": "key of one" })).status).toBe(202);
  session.leave();
});

test("what is not a message is refused, and the session continues", async () => {
  const doors = await startDoors();
  const session = await opened(doors);
  const refused = async (body: unknown, headers: Record<string, string> = {}) => {
    const answer = await rpc(session.post, body, headers);
    const { error, code } = (await answer.json()) as { error: { code: number }; code?: string };
    return [answer.status, code ?? error.code];
  };
  expect(await refused("{")).toEqual([400, -32700]);
  expect(await refused("{}", { "content-type": "text/plain" })).toEqual([415, -32000]);
  expect(await refused({ hello: "there" })).toEqual([400, -32600]);
  expect(await refused([])).toEqual([400, -32600]);
  expect(await refused(Array.from({ length: 21 }, () => hello))).toEqual([400, -32600]);
  expect(await refused("x".repeat(1_048_577))).toEqual([413, "body_too_large"]);
  expect((await rpc(session.post, [hello, { ...hello, id: 1, method: "ping" }])).status).toBe(202);
  await until(() => session.received.text.includes('"id":1'));
  session.leave();
});

test("each session has a server of its own, and the handler learns of a cancelled call", async () => {
  const doors = await startDoors();
  const [one, other] = [
    await connected(doors.url, { path: "/sse" }),
    await connected(doors.url, { path: "/sse" }),
  ];
  const leaving = new AbortController();
  const call = one.callTool({ name: "wait_for_job", arguments: { job_id: "x" } }, { signal: leaving.signal });
  call.catch(() => undefined);
  await until(() => doors.waiting.now === 1);
  expect((await other.callTool({ name: "list_jobs", arguments: {} })).isError ?? false).toBe(false);
  leaving.abort();
  await until(() => doors.waiting.now === 0);
  await one.close();
  await other.close();
  await until(() => ended(doors) === 2);
});

test("a client that goes takes its session and its calls with it", async () => {
  const doors = await startDoors();
  const session = await opened(doors);
  await rpc(session.post, toolCall("wait_for_job", { job_id: "x" }));
  await until(() => doors.waiting.now === 1);
  session.leave();
  await until(() => doors.waiting.now === 0);
  expect((await rpc(session.post, hello)).status).toBe(404);
});

test("hundreds of clients that open and vanish leave nothing behind", async () => {
  const doors = await startDoors();
  const listeners = () => getEventListeners(doors.closing.signal, "abort").length;
  // The first request loads what listens as long as the service runs.
  await rpc(doors.url, toolCall("list_jobs", {}));
  const before = listeners();
  const started = vi.spyOn(globalThis, "setInterval");
  const stopped = vi.spyOn(globalThis, "clearInterval");
  for (let round = 0; round < 3; round += 1) {
    const sockets = await Promise.all(Array.from({ length: 100 }, () => rawSession(doors)));
    for (const socket of sockets) socket.destroy();
    await until(() => ended(doors) === (round + 1) * 100);
  }
  expect(listeners()).toBe(before);
  const pings = started.mock.results.map(({ value }) => value as unknown);
  expect(pings.length).toBeGreaterThanOrEqual(300);
  expect(stopped.mock.calls.map(([timer]) => timer as unknown)).toEqual(expect.arrayContaining(pings));
  vi.restoreAllMocks();
});

test("as many sessions as may be open are open, and one that ends makes room", async () => {
  const doors = await startDoors({ maxSessions: 2 });
  const [first, second] = [await opened(doors), await opened(doors)];
  const refused = await fetch(`${doors.url}/sse`);
  expect([refused.status, refused.headers.get("retry-after"), await refused.json()]).toMatchObject([
    503,
    "5",
    { success: false, error: expect.stringContaining("/mcp") },
  ]);
  first.leave();
  await until(() => ended(doors) === 1);
  (await opened(doors)).leave();
  second.leave();
});

test("a HEAD request opens no session", async () => {
  const doors = await startDoors({ maxSessions: 1 });
  expect((await fetch(`${doors.url}/sse`, { method: "HEAD" })).status).toBe(200);
  (await opened(doors)).leave();
});

test("a client that stops reading is disconnected, and others are served in the meantime", async () => {
  const doors = await startDoors();
  const printed = vi.spyOn(console, "error");
  const socket = await rawSession(doors);
  let head = "";
  socket.on("data", (data: Buffer) => (head += data.toString()));
  const endpoint = await until(() => /data: (\/messages\S+)/.exec(head)?.[1]);
  socket.pause();
  // Each answer is some 45 KB: what the kernel takes, and then what may wait.
  let posted = 0;
  const ask = { jsonrpc: "2.0", id: 1, method: "tools/list" };
  const done = until(
    async () => {
      await Promise.all(Array.from({ length: 20 }, () => rpc(doors.url + endpoint, ask)));
      posted += 20;
      return ended(doors) === 1;
    },
    { what: "the reader to be cut off" },
  );
  await done;
  expect(posted).toBeGreaterThan(40);
  expect(doors.lines).toContainEqual(expect.objectContaining({ why: "stalled" }));
  expect((await rpc(doors.url, ask)).status).toBe(200);
  const closed = once(socket, "close");
  socket.resume();
  await closed;
  // It is only logged.
  expect(printed).not.toHaveBeenCalled();
  vi.restoreAllMocks();
});

test("when the service shuts down streams end, and no new ones begin", async () => {
  const doors = await startDoors();
  const session = await opened(doors);
  doors.closing.abort();
  await until(() => session.received.ended);
  const late = await fetch(`${doors.url}/sse`);
  expect([late.status, await late.json()]).toMatchObject([503, { code: "draining" }]);
});

/** A connection that has asked for /sse and got the beginning of an answer. */
const rawSession = async ({ port }: Doors): Promise<Socket> => {
  const socket = createConnection({ host: "127.0.0.1", port });
  socket.on("error", () => undefined);
  socket.write("GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const { promise, resolve } = Promise.withResolvers<void>();
  socket.once("readable", resolve);
  await promise;
  return socket;
};
