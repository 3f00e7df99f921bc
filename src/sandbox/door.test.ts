import { once } from "node:events";
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer, request, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { connect, createServer as createTcp, type Socket } from "node:net";
import { dirname } from "node:path";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { ask, listen, open, sendRaw } from "./door.fixture.ts";
import { parseHosts } from "../lib/allowed-hosts.ts";

test("a route gets the service's credential and not the client's", async () => {
  const seen: { url: string; headers: IncomingHttpHeaders; body: string }[] = [];
  const port = await listen(
    createServer((asked, answer) => {
      let body = "";
      asked.on("data", (piece: Buffer) => (body += piece.toString()));
      asked.on("end", () => {
        seen.push({ url: asked.url ?? "", headers: asked.headers, body });
        answer.end("hello");
      });
    }),
  );
  const { door } = await open({
    routes: [
      {
        paths: /^\/v1\/messages/,
        target: new URL(`http://127.0.0.1:${port}/base/`),
        headers: { "x-api-key": "real" },
      },
    ],
  });
  const headers = { authorization: "Bearer dummy", "x-api-key": "dummy", "anthropic-beta": "a" };
  const answer = await ask(door.socket, "/v1/messages?beta=true", { method: "POST", headers, body: "{}" });
  expect(answer).toMatchObject({ status: 200, text: "hello" });
  expect(seen).toMatchObject([
    {
      url: "/base/v1/messages?beta=true",
      body: "{}",
      headers: { "x-api-key": "real", "anthropic-beta": "a" },
    },
  ]);
  expect(seen[0]?.headers.authorization).toBeUndefined();
  for (const path of [
    "/other",
    "/v1/messages/../../x",
    "/v1/messages/%2e%2e/x",
    "//evil/v1/messages",
    "/v1/messages\\..\\x",
  ])
    expect(await ask(door.socket, path)).toMatchObject({ status: 404 });
  expect(seen).toHaveLength(1);
});

/** Takes requests as they come: what a proxy made of them can be seen in the bytes. */
const rawModel = async (answer: string) => {
  const seen = { text: "", connections: 0 };
  const port = await listen(
    createTcp((socket) => {
      seen.connections += 1;
      socket.on("error", () => undefined);
      socket.on("data", (piece) => {
        if (seen.text === "") socket.write(answer);
        seen.text += piece.toString("latin1");
      });
    }),
  );
  const route = {
    paths: /^\/v1\//,
    target: new URL(`http://127.0.0.1:${port}`),
    headers: { "x-api-key": "real" },
  };
  return { seen, routes: [route] };
};

const empty = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

test.each([
  [
    "in chunks",
    "transfer-encoding: chunked\r\nconnection: close",
    "2f\r\nPOST /admin HTTP/1.1\r\nhost: a\r\nx-api-key: b\r\n\r\n\r\n0\r\n\r\n",
  ],
  [
    "whose length is for one connection only",
    "content-length: 25\r\nconnection: content-length, close",
    "GET /admin HTTP/1.1\r\na: b\r\n",
  ],
])("a body %s of a request that has none by custom stays a body", async (_, header, body) => {
  const { seen, routes } = await rawModel(empty);
  const { door } = await open({ routes });
  expect(
    await sendRaw(door.socket, `GET /v1/models HTTP/1.1\r\nhost: a\r\n${header}\r\n\r\n${body}`),
  ).toMatch(/ 200 /);
  await until(() => seen.text.includes("/admin"));
  expect(seen.text).toMatch(/\r\n(transfer-encoding: chunked|content-length: 25)\r\n/i);
});

test.each([
  [
    "another protocol",
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello",
    /^HTTP\/1\.1 502 /,
  ],
  ["a status that is none", "HTTP/1.1 000 Zero\r\ncontent-length: 0\r\n\r\n", /^HTTP\/1\.1 502 /],
  ["no HTTP", "hello\r\n\r\n", /^HTTP\/1\.1 502 /],
  [
    "two lengths",
    "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    /^HTTP\/1\.1 502 /,
  ],
  [
    "news before it, headers of one connection, chunks and a trailer",
    "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nconnection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=9\r\nx-end: 1\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n",
    /^HTTP\/1\.1 200 OK\r\nx-end: 1\r\n(?!.*(x-hop|timeout=9)).*\r\n3\r\nabc\r\n0\r\n/s,
  ],
])("a model that answers with %s gets the client an answer", async (_, bytes, expected) => {
  const { routes } = await rawModel(bytes);
  const { door } = await open({ routes });
  expect(
    await sendRaw(door.socket, "GET /v1/models HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
  ).toMatch(expected);
});

test("a route is also behind a name that no host can have, in full form and by CONNECT; the model is asked for nothing else", async () => {
  const seen: string[] = [];
  const port = await listen(
    createServer((asked, answer) => {
      seen.push(`${asked.method} ${asked.url} ${asked.headers.host} ${String(asked.headers["x-api-key"])}`);
      answer.end("hello");
    }),
  );
  const route = {
    paths: /^\/otlp(\/v1\/logs)$/,
    target: new URL(`http://127.0.0.1:${port}/base`),
    headers: { "x-api-key": "real" },
  };
  const { door, denied } = await open({ routes: [route, { ...route, paths: /^\/v1\// }] });
  expect(await ask(door.socket, "http://service.invalid/otlp/v1/logs?a=b", { method: "POST" })).toMatchObject(
    { text: "hello" },
  );
  const inner = "GET /v1/models HTTP/1.1\r\nhost: evil.example.com\r\nconnection: close\r\n\r\n";
  expect(await sendRaw(door.socket, `CONNECT model.invalid:80 HTTP/1.1\r\nhost: a\r\n\r\n${inner}`)).toMatch(
    /^HTTP\/1\.1 200 Connection established\r\n\r\nHTTP\/1\.1 200 .*hello/s,
  );
  const host = `127.0.0.1:${port} real`;
  expect(seen).toEqual([`POST /base/v1/logs?a=b ${host}`, `GET /base/v1/models ${host}`]);
  for (const path of [
    "/v1/../x",
    "/v1/%2e%2e/x",
    "/v1/..%2fx",
    "/v1/.%00",
    "/v1/..;/x",
    "/v1/\\x",
    "/v1//../x",
    "/v1/a#/../x",
    "/V1/x",
    "//v1/x",
    "/v1/.env",
  ])
    for (const form of [path, `http://model.invalid${path}`, `http://model.invalid:80${path}`])
      expect({ form, ...(await ask(door.socket, form)) }).toMatchObject({ form, status: 404 });
  for (const method of ["TRACE", "PUT", "PROPFIND"])
    expect(await ask(door.socket, "/v1/models", { method })).toMatchObject({ status: 404 });
  expect(await ask(door.socket, "http://model.invalid:81/v1/models")).toMatchObject({ status: 403 });
  expect(await ask(door.socket, "http://model.invalid.example.com/v1/models")).toMatchObject({ status: 403 });
  expect(denied).toEqual(["model.invalid:81", "model.invalid.example.com:80"]);
  expect(seen).toHaveLength(2);
});

test("what a route does not take is refused and told, whatever its method and query", async () => {
  let reached = 0;
  const port = await listen(createServer((_asked, answer) => answer.end(`${(reached += 1)}`)));
  const target = new URL(`http://127.0.0.1:${port}`);
  const route = {
    paths: /^\/v1\//,
    takes: /^POST \/v1\/messages$/,
    target,
    headers: { "x-api-key": "real" },
  };
  const { door, denied } = await open({ routes: [route] });
  expect(await ask(door.socket, "/v1/messages?beta=true", { method: "POST" })).toMatchObject({ status: 200 });
  const long = `/v1/${"a".repeat(300)}`;
  const others: [string, string][] = [
    ["GET", "/v1/messages"],
    ["DELETE", "/v1/files/f?x=/v1/messages"],
    ["TRACE", "/v1/messages"],
    ["POST", "http://model.invalid/v1/messages/batches"],
    ["POST", long],
    ["GET", "/v1/files%2Ff"],
    ["POST", "/v1/x/../messages"],
  ];
  for (const [method, path] of others)
    expect(await ask(door.socket, path, { method })).toMatchObject({ status: 403 });
  expect(denied).toEqual([
    "GET /v1/messages",
    "DELETE /v1/files/f",
    "TRACE /v1/messages",
    "POST /v1/messages/batches",
    `POST ${long}`.slice(0, 200),
    "GET /v1/files%2Ff",
    "POST /v1/x/../messages",
  ]);
  expect(reached).toBe(1);
});

test("an answer arrives piece by piece", async () => {
  const go = Promise.withResolvers<void>();
  const port = await listen(
    createServer((_asked, answer) => {
      answer.write("first");
      void go.promise.then(() => answer.end("second"));
    }),
  );
  const { door } = await open({
    routes: [{ paths: /^\/v1/, target: new URL(`http://127.0.0.1:${port}`), headers: {} }],
  });
  const sent = request({ socketPath: door.socket, path: "/v1" });
  sent.end();
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  const [piece] = (await once(answer, "data")) as [Buffer];
  expect(piece.toString()).toBe("first");
  go.resolve();
  const [rest] = (await once(answer, "data")) as [Buffer];
  expect(rest.toString()).toBe("second");
});

test("a redirect is the client's to follow", async () => {
  let reached = 0;
  const secret = await listen(createServer((_asked, answer) => void answer.end(`${(reached += 1)}`)));
  const location = `http://127.0.0.1:${secret}/`;
  const port = await listen(createServer((_asked, answer) => answer.writeHead(302, { location }).end()));
  const { door, denied } = await open({ hosts: parseHosts([`127.0.0.1:${port}`], true) });
  const answer = await ask(door.socket, `http://127.0.0.1:${port}/`);
  expect(answer).toMatchObject({ status: 302, headers: { location } });
  expect(await ask(door.socket, location)).toMatchObject({ status: 403 });
  expect([reached, denied]).toEqual([0, [`127.0.0.1:${secret}`]]);
});

test("a host that resets or hangs up is 502, and the door goes on", async () => {
  const port = await listen(createTcp((socket) => socket.destroy()));
  const { door } = await open({ hosts: parseHosts([`127.0.0.1:${port}`], true) });
  expect(await ask(door.socket, `http://127.0.0.1:${port}/`)).toMatchObject({ status: 502 });
  expect(await ask(door.socket, `http://127.0.0.1:${port}/`)).toMatchObject({ status: 502 });
});

test.each([
  "CONNECT  HTTP/1.1\r\n\r\n",
  "CONNECT host HTTP/1.1\r\nhost: a\r\n\r\n",
  "CONNECT host:0 HTTP/1.1\r\nhost: a\r\n\r\n",
  "CONNECT host:99999 HTTP/1.1\r\nhost: a\r\n\r\n",
  "CONNECT user@host:443 HTTP/1.1\r\nhost: a\r\n\r\n",
  "GET https://host/ HTTP/1.1\r\nhost: a\r\n\r\n",
  "GET http://user:pass@host/ HTTP/1.1\r\nhost: a\r\n\r\n",
  "GET ftp://host/ HTTP/1.1\r\nhost: a\r\n\r\n",
  "GET http://a;touch$(x).example.com/ HTTP/1.1\r\nhost: a\r\n\r\n",
  "GET http://a`x`.example.com/ HTTP/1.1\r\nhost: a\r\n\r\n",
  "CONNECT --all:443 HTTP/1.1\r\nhost: a\r\n\r\n",
  "POST /v1 HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
  "garbage\r\n\r\n",
])("%j is 400", async (bytes) => {
  const { door, denied } = await open({ hosts: parseHosts(["host"]), resolve: async () => ["127.0.0.1"] });
  expect(await sendRaw(door.socket, bytes)).toMatch(/^HTTP\/1\.1 400 /);
  expect(denied).toEqual([]);
});

test("the socket is the service's alone, and goes with its run", async () => {
  const port = await listen(createTcp(() => undefined));
  const { door } = await open({ hosts: parseHosts([`127.0.0.1:${port}`], true) });
  expect((await stat(door.socket)).mode & 0o777).toBe(0o600);
  expect((await stat(dirname(door.socket))).mode & 0o777).toBe(0o700);
  const held = connect(door.socket);
  held.write(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\nhost: a\r\n\r\n`);
  await once(held, "data");
  const closed = once(held, "close");
  held.on("error", () => undefined);
  await door[Symbol.asyncDispose]();
  await closed;
  expect(existsSync(dirname(door.socket))).toBe(false);
});

test("where the service has a proxy, the model and hosts are reached through it, which resolves their names", async () => {
  const seen: string[] = [];
  const model = await listen(
    createServer((asked, answer) =>
      answer.end([asked.headers.host, asked.headers["x-api-key"] ?? "no key"].join(" ")),
    ),
  );
  const proxy = createServer();
  proxy.on("connect", (asked: IncomingMessage, client: Socket) => {
    seen.push(`${asked.url} ${asked.headers["proxy-authorization"]}`);
    if (asked.url?.startsWith("down.") === true) return client.end("HTTP/1.1 503 Down\r\n\r\n");
    const host = connect(model, "127.0.0.1", () => client.write("HTTP/1.1 200 OK\r\n\r\n"));
    host.pipe(client).pipe(host);
  });
  const login = `Basic ${Buffer.from("me:secret").toString("base64")}`;
  const address = `http://me:secret@127.0.0.1:${await listen(proxy)}`;
  const { door, denied } = await open({
    routes: [
      { paths: /^\/v1\//, target: new URL("http://model.example.com"), headers: { "x-api-key": "key" } },
    ],
    hosts: parseHosts(["registry.example.com", "down.example.com", "here.example.com", "127.0.0.1:9"]),
    proxy: () => address,
    resolve: async (name) => (name === "here.example.com" ? ["127.0.0.1"] : []),
  });
  expect((await ask(door.socket, "/v1/messages")).text).toBe("model.example.com key");
  expect((await ask(door.socket, "http://registry.example.com/a")).text).toBe("registry.example.com no key");
  const through = "CONNECT registry.example.com:443 HTTP/1.1\r\nhost: a\r\n\r\n";
  expect(
    await sendRaw(door.socket, `${through}GET / HTTP/1.1\r\nhost: b\r\nconnection: close\r\n\r\n`),
  ).toMatch(/^HTTP\/1\.1 200 Connection established[^]*b no key/);
  expect(seen).toEqual(
    ["model.example.com:80", "registry.example.com:80", "registry.example.com:443"].map(
      (name) => `${name} ${login}`,
    ),
  );
  expect((await ask(door.socket, "http://other.example.com/")).status).toBe(403);
  expect((await ask(door.socket, "http://127.0.0.1:9/")).status).toBe(403);
  expect(await sendRaw(door.socket, "CONNECT down.example.com:443 HTTP/1.1\r\nhost: a\r\n\r\n")).toMatch(
    /^HTTP\/1\.1 502 [^]*the proxy of this machine answers 503/,
  );
  // The proxy may be on this host.
  expect((await ask(door.socket, "http://here.example.com/")).status).toBe(403);
  expect(denied).toEqual(["other.example.com:80", "127.0.0.1:9", "here.example.com:80"]);
});
