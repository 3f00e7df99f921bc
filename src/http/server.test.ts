import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { listen, type Listening } from "./server.ts";
import { createTestApp, memoryHandlers } from "./app.fixture.ts";

const open: Listening[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close(0)));
});

const timeouts = { headers: 10_000, request: 60_000, keepAlive: 65_000 };

const started = async (
  service = createTestApp(),
  times: Partial<typeof timeouts> = {},
): Promise<Listening> => {
  const server = await listen(service.app, {
    host: "127.0.0.1",
    port: 0,
    timeouts: { ...timeouts, ...times },
  });
  open.push(server);
  return server;
};

/** A raw connection and what it has received. */
const raw = async ({ port }: Listening) => {
  const socket: Socket = connect(port, "127.0.0.1");
  const seen = { text: "", closed: false };
  socket.on("data", (data: Buffer) => (seen.text += data.toString()));
  socket.on("error", () => (seen.closed = true));
  socket.on("close", () => (seen.closed = true));
  await once(socket, "connect");
  return { socket, seen };
};

const head = "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

describe("large bodies", () => {
  test("a chunked body without a length is refused when it passes 1 MiB, long before its end", async () => {
    const { socket, seen } = await raw(await started());
    socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
    const chunk = `10000\r\n${" ".repeat(65_536)}\r\n`;
    for (let sent = 0; sent < 17; sent += 1) socket.write(chunk);
    await until(() => seen.text.includes("body_too_large"));
    expect(seen.text).toMatch(/^HTTP\/1\.1 413 [^]*connection: close/i);
    await until(() => seen.closed, { what: "the connection to end" });
  });

  test("a body that announces more is refused before it is sent", async () => {
    const { socket, seen } = await raw(await started());
    socket.write(`${head}Content-Length: 1048577\r\n\r\n`);
    await until(() => seen.text.includes("body_too_large"));
    socket.destroy();
  });
});

describe("slow and broken requests", () => {
  test("headers that do not arrive in time end the connection with a sentence", async () => {
    const { socket, seen } = await raw(await started(createTestApp(), { headers: 100 }));
    socket.write("GET /health HTTP/1.1\r\nHost: local");
    await until(() => seen.closed);
    expect(seen.text).toMatch(/^HTTP\/1\.1 408 .*"The request took too long to arrive"/s);
  });

  test("a body that does not arrive in time ends too, while an answer may take longer than that", async () => {
    const service = createTestApp();
    const server = await started(service, { headers: 100, request: 150 });
    const slow = await raw(server);
    const waiting = await raw(server);
    waiting.socket.write(`${head}Content-Length: 24\r\n\r\n{"task":"x","wait":true}`);
    slow.socket.write(`${head}Content-Length: 24\r\n\r\n{"task":`);
    await until(() => slow.seen.closed);
    expect(slow.seen.text).toMatch(/^HTTP\/1\.1 408 /);
    const again = await raw(server);
    again.socket.write(`${head}Content-Length: 24\r\n\r\n{"task":`);
    await until(() => again.seen.closed);
    expect(waiting.seen).toEqual({ text: "", closed: false });
    expect(service.contexts[0]?.signal.aborted).toBe(false);
  });

  test.each([
    ["not HTTP at all", "hello\r\n\r\n", /^HTTP\/1\.1 400 .*"success":false/s],
    [
      "headers beyond 16 KiB",
      `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`,
      /^HTTP\/1\.1 431 .*16 KiB/s,
    ],
    [
      "a Host that is none",
      "GET /health HTTP/1.1\r\nHost: a b\r\n\r\n",
      /^HTTP\/1\.1 (400|403) .*"success":false/s,
    ],
    [
      "an address that is none",
      "GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
      /^HTTP\/1\.1 400 .*"success":false/s,
    ],
    ["no Host", "GET /health HTTP/1.1\r\n\r\n", /^HTTP\/1\.1 400 .*"success":false.*Host/s],
    [
      "an unknown expectation",
      `${head}Content-Length: 2\r\nExpect: cake\r\n\r\n{}`,
      /^HTTP\/1\.1 417 .*"success":false.*Expect/s,
    ],
    [
      "CONNECT, which is for proxies",
      "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      /^HTTP\/1\.1 405 .*\r\nAllow: .*"success":false.*"method_not_allowed"/s,
    ],
    [
      "a chunk length that is none",
      `${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
      /^HTTP\/1\.1 400 .*"success":false/s,
    ],
    [
      "a foreign Host",
      "GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
      /^HTTP\/1\.1 403 .*"forbidden_host"/s,
    ],
  ])("%s is answered like everything else", async (_, text, answer) => {
    const { socket, seen } = await raw(await started());
    socket.write(text);
    await until(() => answer.test(seen.text), { what: `the answer, and it is ${seen.text}` });
    socket.destroy();
  });

  test("a bad chunk after an early answer ends the connection without a second answer", async () => {
    const { socket, seen } = await raw(await started());
    socket.write(`${head.replace("/jobs", "/nothing")}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`);
    await until(() => seen.text.includes('"not_found"'));
    socket.write("zz\r\n");
    await until(() => seen.closed);
    expect(seen.text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 404"]);
  });

  test("a client that waits after CONNECT does not delay the close of the server", async () => {
    const server = await listen(createTestApp().app, { host: "127.0.0.1", port: 0 });
    const socket = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
    socket.on("error", () => undefined).write("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await once(socket.resume(), "end");
    await server.close(0);
    socket.destroy();
  });

  test("a client of HTTP/1.0 needs no Host", async () => {
    const { socket, seen } = await raw(await started());
    socket.write("GET /health HTTP/1.0\r\n\r\n");
    await until(() => seen.closed);
    expect(seen.text).toMatch(/^HTTP\/1\.1 200 /);
  });
});

test("an operation that waits learns that its caller has disconnected", async () => {
  const service = createTestApp();
  const { socket } = await raw(await started(service));
  socket.write(`${head}Content-Length: 24\r\n\r\n{"task":"x","wait":true}`);
  const context = await until(() => service.contexts[0]);
  expect(context.signal.aborted).toBe(false);
  socket.destroy();
  await until(() => context.signal.aborted);
  await until(() => service.lines.find((line) => line["status"] === 499));
  expect(service.lines.filter((line) => line["level"] === "error")).toEqual([]);
});

describe("listening", () => {
  test("a port that is taken is named, with the way out", async () => {
    const { port } = await started();
    await expect(listen(createTestApp().app, { host: "127.0.0.1", port })).rejects.toThrow(
      `Cannot listen on 127.0.0.1:${port}: the port is taken. Stop what listens there, or choose another port with --port or SERVICE_PORT (0: a free one)`,
    );
    await expect(listen(createTestApp().app, { host: "192.0.2.1", port: 0 })).rejects.toThrow(
      "this machine has no such address",
    );
    const setBy = { host: "ITS_HOST", port: "ITS_PORT" };
    await expect(listen(createTestApp().app, { host: "127.0.0.1", port, setBy })).rejects.toThrow(
      "choose another port with ITS_PORT (0",
    );
  });

  test("an IPv6 address is listened on, and its URL can be asked", async () => {
    const server = await listen(createTestApp().app, { host: "::1", port: 0 });
    open.push(server);
    expect(server.url).toBe(`http://[::1]:${server.port}`);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });
});

describe("closing", () => {
  const held = () => {
    const answer = Promise.withResolvers<void>();
    const handlers = memoryHandlers(new Map());
    const list_jobs = async (...args: Parameters<typeof handlers.list_jobs>) => {
      await answer.promise;
      return handlers.list_jobs(...args);
    };
    return { service: createTestApp({ handlers: { ...handlers, list_jobs } }), answer };
  };
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

  test("idle connections end at once, one that waits for its answer gets it and then ends", async () => {
    const { service, answer } = held();
    const server = await started(service);
    const idle = await raw(server);
    const busy = await raw(server);
    idle.socket.write(get("/health"));
    await until(() => idle.seen.text.includes("200 OK"));
    busy.socket.write(get("/jobs"));
    await until(() => service.lines.length > 0);
    const began = performance.now();
    const closed = server.close(60_000);
    await until(() => idle.seen.closed);
    expect(busy.seen).toEqual({ text: "", closed: false });
    answer.resolve();
    await closed;
    expect(performance.now() - began).toBeLessThan(30_000);
    await until(() => busy.seen.closed);
    expect(busy.seen.text).toMatch(/^HTTP\/1\.1 200 .*"count":0/s);
  });

  test("what has not finished within the grace is cut", async () => {
    const { service } = held();
    const server = await started(service);
    const busy = await raw(server);
    busy.socket.write(get("/jobs"));
    const other = await raw(server);
    other.socket.write(get("/health"));
    await until(() => other.seen.text.includes("200 OK"));
    await server.close(50);
    await until(() => busy.seen.closed);
    expect(busy.seen.text).toBe("");
  });
});

test("an answer to a HEAD request over a connection leaves it fit for the next one", async () => {
  const server = await started();
  const status = (method: string, path: string) =>
    new Promise((resolve, reject) => {
      const request = httpRequest(server.url + path, { method }, (response) =>
        response.resume().on("end", () => resolve(response.statusCode)),
      );
      request.on("error", reject).end();
    });
  expect([
    await status("HEAD", "/jobs"),
    await status("HEAD", "/nothing"),
    await status("GET", "/jobs"),
  ]).toEqual([200, 404, 200]);
});
