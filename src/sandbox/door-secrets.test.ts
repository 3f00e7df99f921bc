import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import { createServer } from "node:https";
import { connect, createServer as createTcp, type AddressInfo, type Server } from "node:net";
import { connect as connectTls, getCACertificates, setDefaultCACertificates, type TLSSocket } from "node:tls";
import { generate } from "selfsigned";
import { expect, test, vi } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { until } from "../../test/until.ts";
import { grantedHosts, parseHosts } from "../lib/allowed-hosts.ts";
import { openDoor, type DoorOptions } from "./door.ts";
import type { AgentSecret } from "./placeholders.ts";

const name = "api.example.com";
const certificateFor = (value: string) =>
  generate([{ name: "commonName", value }], {
    keyType: "ec",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "subjectAltName", altNames: [{ type: 2, value }] },
    ],
  });
const known = await certificateFor(name);
const trusted = getCACertificates("default");
setDefaultCACertificates([...trusted, known.cert]);
afterFile(async () => setDefaultCACertificates(trusted));

const listen = async (server: Server): Promise<number> => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(async () => void server.close());
  return (server.address() as AddressInfo).port;
};

type Seen = { method: string; url: string; headers: IncomingHttpHeaders; body: string };

/** A host that remembers what it is asked, and repeats the credential in its answer. */
const startHost = async ({ private: key, cert } = known) => {
  const seen: Seen[] = [];
  const server = createServer({ key, cert }, (asked, answer) => {
    let body = "";
    asked.on("data", (piece: Buffer) => (body += piece.toString()));
    asked.on("end", () => {
      const { method = "", url = "", headers } = asked;
      seen.push({ method, url, headers, body });
      answer.writeHead(200, { "x-echo": headers.authorization ?? "none", "set-cookie": ["a", "b"] });
      answer.end(`hello from ${url}`);
    });
  });
  let connections = 0;
  server.on("secureConnection", () => (connections += 1));
  return { seen, port: await listen(server), connections: () => connections };
};

const value = "real-canary-5e1";
const placeholder = "placeholder-of-token";
const secretAt = (port: number, more: Partial<AgentSecret> = {}): AgentSecret => ({
  name: "TOKEN",
  placeholder,
  value,
  hosts: [`${name}:${port}`],
  header: null,
  ...more,
});

const open = async (port: number, options: Partial<DoorOptions> = {}) => {
  const door = await openDoor({
    routes: [],
    hosts: parseHosts([`${name}:${port}`, `other.example.com:${port}`], true),
    secrets: [secretAt(port)],
    onDenied: () => undefined,
    resolve: async () => ["127.0.0.1"],
    ...options,
  });
  afterFile(() => door[Symbol.asyncDispose]());
  return door;
};

/** Some of these tests ask for a name that the certificate does not have. */
const usual = { ALPNProtocols: ["h2", "http/1.1"], checkServerIdentity: () => undefined };

type Client = { socket: string; certificate: string | null };

/** A connection through the door, after its handshake. */
const secure = async (
  { socket: path, certificate }: Client,
  target: string,
  { servername = name, trusts = certificate ?? "" } = {},
): Promise<TLSSocket> => {
  const raw = connect(path);
  raw.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n\r\n`);
  const [answer] = (await once(raw, "data")) as [Buffer];
  if (!answer.toString().startsWith("HTTP/1.1 200 ")) throw new Error(answer.toString());
  const socket = connectTls({ socket: raw, servername, ca: trusts, ...usual });
  socket.on("error", () => undefined);
  afterFile(async () => void socket.destroy());
  await once(socket, "secureConnect");
  return socket;
};

/** Sends bytes as they are; resolves to what has come when `enough` says so, or at the end. */
const say = async (socket: TLSSocket, bytes: string, enough = (_text: string) => false): Promise<string> => {
  let text = "";
  const read = (piece: Buffer): void => void (text += piece.toString());
  socket.on("data", read);
  socket.write(bytes);
  await until(() => socket.destroyed || socket.readableEnded || enough(text));
  socket.off("data", read);
  return text;
};

const request = (
  port: number,
  lines: string[],
  body = "",
  start = "GET /a/../b//c?x=%20y HTTP/1.1",
): string => [start, `host: ${name}:${port}`, ...lines, "", body].join("\r\n");

const ended = "hello from ";

test("a value is put into its own header for its host, request after request, and nothing else is changed", async () => {
  const host = await startHost();
  const door = await open(host.port, {
    secrets: [
      secretAt(host.port),
      secretAt(host.port, {
        name: "KEY",
        placeholder: "placeholder-of-key",
        value: "key-5e1",
        header: "X-Key",
      }),
    ],
  });
  const socket = await secure(door, `${name.toUpperCase()}:${host.port}`);
  expect(socket.getPeerX509Certificate()?.checkHost(name)).toBe(name);
  expect(socket.alpnProtocol).toBe("http/1.1");
  const lines = [
    `Authorization: Bearer ${placeholder}`,
    `x-other: ${placeholder} placeholder-of-key`,
    "x-key: placeholder-of-key",
    "transfer-encoding: chunked",
  ];
  const start = `POST /a/../b//c?x=%20y&t=${placeholder} HTTP/1.1`;
  const chunk = `${placeholder.length.toString(16)}\r\n${placeholder}\r\n0\r\n\r\n`;
  const first = await say(socket, request(host.port, lines, chunk, start), (text) => text.includes(ended));
  expect(first).toMatch(/^HTTP\/1\.1 200 /);
  expect(first).toContain(`x-echo: Bearer ${placeholder}\r\nset-cookie: a\r\nset-cookie: b\r\n`);
  expect(first).not.toContain(value);
  const login = Buffer.from(`me:${placeholder}`).toString("base64");
  const basic = [`authorization: Basic ${login}`, "connection: close"];
  expect(await say(socket, request(host.port, basic))).toContain(ended);
  expect(host.seen).toMatchObject([
    {
      url: `/a/../b//c?x=%20y&t=${placeholder}`,
      body: placeholder,
      headers: {
        host: `${name}:${host.port}`,
        authorization: `Bearer ${value}`,
        "x-key": "key-5e1",
        "x-other": `${placeholder} placeholder-of-key`,
      },
    },
    { headers: { authorization: `Basic ${Buffer.from(`me:${value}`).toString("base64")}` } },
  ]);
  expect(host.connections()).toBe(1);
});

test.each([
  ["another Host", 421, ["host: other.example.com"], "GET / HTTP/1.1"],
  ["the Host of another port", 421, [`host: ${name}`], "GET / HTTP/1.1"],
  ["no Host", 421, [], "GET / HTTP/1.0"],
  ["a whole address", 400, null, "GET https://other.example.com/ HTTP/1.1"],
  ["no path", 400, null, "OPTIONS * HTTP/1.1"],
  ["a tunnel", 400, null, "CONNECT other.example.com:443 HTTP/1.1"],
  ["what repeats its headers", 405, null, "TRACE / HTTP/1.1"],
  ["a WebSocket", 501, ["upgrade: websocket", "connection: upgrade"], "GET / HTTP/1.1"],
  ["two lengths", 400, ["content-length: 3", "transfer-encoding: chunked"], "POST / HTTP/1.1"],
  ["no length that is one", 400, ["content-length: 3", "content-length: 4"], "POST / HTTP/1.1"],
  ["more headers than anybody needs", 400, [`x: ${"a".repeat(20_000)}`], "GET / HTTP/1.1"],
])("a request for %s is %i, and does not reach the host", async (_, status, more, start) => {
  const host = await startHost();
  const socket = await secure(await open(host.port), `${name}:${host.port}`);
  const own =
    more === null || status >= 500 || start.startsWith("POST") || more[0]?.startsWith("x:") === true;
  const lines = [
    ...(own ? [`host: ${name}:${host.port}`] : []),
    ...(more ?? []),
    `authorization: ${placeholder}`,
  ];
  expect(await say(socket, [start, ...lines, "", ""].join("\r\n"))).toMatch(
    new RegExp(`^HTTP/1\\.1 ${status} `),
  );
  expect(host.seen).toEqual([]);
});

test("who asks by TLS for another name than by CONNECT is refused", async () => {
  const host = await startHost();
  const door = await open(host.port);
  const socket = await secure(door, `${name}:${host.port}`, { servername: "other.example.com" });
  expect(await say(socket, request(host.port, [`authorization: ${placeholder}`]))).toMatch(/ 421 /);
  expect(host.seen).toEqual([]);
});

test("a host with another certificate gets nothing, whatever the environment says", async () => {
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  const wrong = [await certificateFor(name), await certificateFor("other.example.com")];
  for (const certificate of wrong) {
    const host = await startHost(certificate);
    const socket = await secure(await open(host.port), `${name}:${host.port}`);
    expect(await say(socket, request(host.port, [`authorization: ${placeholder}`]))).toMatch(
      /^HTTP\/1\.1 502 [^]*certificate/,
    );
    expect(host.seen).toEqual([]);
  }
  vi.unstubAllEnvs();
});

test("other hosts and ports are not read: their own certificate arrives, and the placeholder goes out", async () => {
  const other = await certificateFor("other.example.com");
  const host = await startHost(other);
  const door = await open(host.port);
  const how = { servername: "other.example.com", trusts: other.cert };
  const socket = await secure(door, `other.example.com:${host.port}`, how);
  expect(socket.getPeerX509Certificate()?.toString()).toBe(new X509Certificate(other.cert).toString());
  const lines = [`authorization: ${placeholder}`, "connection: close"];
  await say(socket, request(host.port, lines));
  expect(host.seen).toMatchObject([{ headers: { authorization: placeholder } }]);
  const elsewhere = await open(host.port, { secrets: [secretAt(host.port, { hosts: [name] })] });
  const untouched = await secure(elsewhere, `${name}:${host.port}`, how);
  expect(untouched.getPeerX509Certificate()?.subject).toBe("CN=other.example.com");
});

test("an answer arrives piece by piece, a body is asked for first, and all of it ends with the door", async () => {
  const go = Promise.withResolvers<void>();
  const { private: key, cert } = known;
  let closed = false;
  const server = createServer({ key, cert }, (asked, answer) => {
    asked.resume();
    asked.socket.once("close", () => (closed = true));
    answer.writeHead(200, { "content-type": "text/event-stream" }).write("data: first\n\n");
    void go.promise.then(() => answer.write("data: second\n\n"));
  });
  const port = await listen(server);
  const door = await open(port);
  const socket = await secure(door, `${name}:${port}`);
  const lines = ["expect: 100-continue", "content-length: 2"];
  const start = "POST /events HTTP/1.1";
  expect(await say(socket, request(port, lines, "", start), (text) => text.endsWith("\r\n\r\n"))).toMatch(
    /^HTTP\/1\.1 100 Continue/,
  );
  expect(await say(socket, "{}", (text) => text.includes("first"))).not.toContain("second");
  go.resolve();
  await say(socket, "", (text) => text.includes("second"));
  await door[Symbol.asyncDispose]();
  await until(() => closed && socket.destroyed);
});

test("who does not finish a handshake, or speaks no TLS, is not waited for", async () => {
  const host = await startHost();
  const door = await open(host.port, { limits: { connectMs: 200 } });
  for (const bytes of ["", "\x16\x03\x01", "GET / HTTP/1.1\r\nhost: a\r\n\r\n"]) {
    const client = connect(door.socket);
    client.on("error", () => undefined).resume();
    client.write(`CONNECT ${name}:${host.port} HTTP/1.1\r\nhost: a\r\n\r\n${bytes}`);
    await until(() => client.destroyed);
  }
  const socket = await secure(door, `${name}:${host.port}`);
  expect(await say(socket, request(host.port, ["connection: close"]))).toContain(ended);
});

test("without secrets no authority is made; with a value that no header can have the door does not open", async () => {
  const made = vi.spyOn(crypto.subtle, "generateKey");
  const { port } = await startHost();
  const before = made.mock.calls.length;
  expect((await open(port, { secrets: [] })).certificate).toBeNull();
  expect(made.mock.calls.length).toBe(before);
  const secrets = [secretAt(port, { value: "two\nlines-5e1" })];
  const error = await open(port, { secrets }).catch((thrown: unknown) => String(thrown));
  expect(error).toContain("the secret TOKEN goes into a header");
  expect(error).not.toContain("5e1");
});

const fetches = "content-type: application/x-git-upload-pack-request";

test.each([
  ["GET /npm/left-pad HTTP/1.1", [], true, true],
  ["HEAD /npm/left-pad HTTP/1.1", [], true, true],
  ["POST /a/b.git/git-upload-pack HTTP/1.1", [fetches], true, false],
  ["POST /a/b.git/git-upload-pack HTTP/1.1", [], false, false],
  ["POST /a/b.git/git-receive-pack HTTP/1.1", [fetches], false, false],
  ["POST /publish?to=/git-upload-pack HTTP/1.1", [fetches], false, false],
  ["PUT /npm/left-pad HTTP/1.1", [], false, false],
  ["POST /upload HTTP/1.1", [], false, false],
  ["DELETE /npm/left-pad HTTP/1.1", [], false, false],
  ["PATCH /a HTTP/1.1", [], false, false],
  ["OPTIONS /a HTTP/1.1", [], false, false],
  ["get /a HTTP/1.1", [], false, false],
  ["GET /a HTTP/1.1", ["x-http-method-override: PUT"], false, false],
  ["GET /a HTTP/1.1", ["X-Method-Override: PUT"], false, false],
])(
  "where only reading goes, %s with %j passes to a secret's host: %s, to another: %s",
  async (start, more, own, any) => {
    for (const [secrets, passes] of [
      [undefined, own],
      [[], any],
    ] as const) {
      const host = await startHost();
      const readOnly = parseHosts([`${name}:${host.port}`]);
      const door = await open(host.port, { readOnly, ...(secrets && { secrets }) });
      const socket = await secure(door, `${name}:${host.port}`);
      const lines = [`authorization: ${placeholder}`, "content-length: 0", "connection: close", ...more];
      const answer = await say(socket, request(host.port, lines, "", start));
      expect(answer).toMatch(passes ? /^HTTP\/1\.1 200 / : /^HTTP\/1\.1 (405|400) /);
      const sent = secrets === undefined ? value : placeholder;
      expect(host.seen.map(({ headers }) => headers.authorization)).toEqual(passes ? [sent] : []);
    }
  },
);

test("where only reading goes, it is so without TLS, too, and no tunnel leads to port 80", async () => {
  let text = "";
  const port = await listen(
    createTcp((socket) => {
      socket.on("data", (piece) => (text += piece.toString()));
      socket.end("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    }),
  );
  const readOnly = parseHosts([`${name}:${port}`, name]);
  const hosts = parseHosts([`${name}:${port}`, name], true);
  const door = await open(port, { readOnly, hosts, secrets: [] });
  const asks = async (bytes: string): Promise<string> => {
    const client = connect(door.socket);
    client.write(bytes);
    const [answer] = (await once(client, "data")) as [Buffer];
    client.destroy();
    return answer.toString();
  };
  const to = (method: string) =>
    `${method} http://${name}:${port}/a HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n`;
  for (const method of ["PUT", "POST", "DELETE"]) expect(await asks(to(method))).toMatch(/^HTTP\/1\.1 405 /);
  expect(await asks(`CONNECT ${name}:80 HTTP/1.1\r\nhost: a\r\n\r\n`)).toMatch(/^HTTP\/1\.1 403 /);
  expect(text).toBe("");
  expect(await asks(to("GET"))).toMatch(/^HTTP\/1\.1 200 /);
});

test.each([
  ["10.1.2.3", true, false],
  ["192.168.0.1", true, false],
  ["fd12::1", true, false],
  ["::ffff:10.1.2.3", true, false],
  ["127.0.0.1", false, false],
  ["169.254.169.254", false, false],
])(
  "a name that leads to %s is for the operator's hosts: %s, for anybody's: %s",
  async (address, operators, anybodys) => {
    for (const [hosts, isReached] of [
      [parseHosts([name]), operators],
      [grantedHosts([name], []), anybodys],
      [[...grantedHosts([name], []), ...parseHosts([name])], operators],
    ] as const) {
      const denied: string[] = [];
      const limits = { connectMs: 100 };
      const over = { hosts, secrets: [], limits, proxy: () => null, resolve: async () => [address] };
      const door = await open(443, { ...over, onDenied: (what) => void denied.push(what) });
      const client = connect(door.socket);
      client.write(`CONNECT ${name}:443 HTTP/1.1\r\nhost: a\r\n\r\n`);
      await once(client, "data");
      client.destroy();
      expect(denied).toEqual(isReached ? [] : [`${name}:443`]);
    }
  },
);

test("by plain HTTP a placeholder stays one", async () => {
  let text = "";
  const port = await listen(
    createTcp((socket) => {
      socket.on("data", (piece) => (text += piece.toString()));
      socket.end("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    }),
  );
  const door = await open(port);
  const client = connect(door.socket);
  client.write(`GET http://${name}:${port}/ HTTP/1.1\r\nhost: a\r\nauthorization: ${placeholder}\r\n\r\n`);
  await until(() => text.includes("\r\n\r\n"));
  expect(text).toContain(placeholder);
  expect(text).not.toContain(value);
});
