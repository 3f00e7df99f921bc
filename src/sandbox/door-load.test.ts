import { spawn } from "node:child_process";
import { once } from "node:events";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { connect, createServer as createTcp, type AddressInfo, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import { setImmediate as turn, setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { until } from "../../test/until.ts";
import { parseHosts } from "../lib/allowed-hosts.ts";
import { openDoor, type DoorOptions } from "./door.ts";

/** Hosts that hang, flood or reset, and clients that do not read, do not end or ask for too much. */

const listen = async (server: Server): Promise<number> => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(async () => void server.close());
  return (server.address() as AddressInfo).port;
};

const open = async (options: Partial<DoorOptions>) => {
  const door = await openDoor({ routes: [], hosts: [], onDenied: () => undefined, ...options });
  afterFile(() => door[Symbol.asyncDispose]());
  return door;
};

const toPort = (port: number) => ({ hosts: parseHosts([`127.0.0.1:${port}`], true) });

const dial = (path: string): Socket => {
  const client = connect(path).on("error", () => undefined);
  afterFile(async () => void client.destroy());
  return client;
};

const connectTo = (target: string | number): string =>
  `CONNECT ${typeof target === "number" ? `127.0.0.1:${target}` : target} HTTP/1.1\r\nhost: a\r\n\r\n`;
const get = (url: string): string => `GET ${url} HTTP/1.1\r\nhost: a\r\n\r\n`;

/** Sends the bytes and waits for the first that come back; empty: the door closed. */
const first = (client: Socket, bytes: string): Promise<string> =>
  new Promise((resolve) => {
    client.once("data", (piece) => resolve(piece.toString())).once("close", () => resolve(""));
    client.write(bytes);
  });

/** A port whose queue of connections is full: the kernel leaves further ones unanswered. */
const fullPort = async (): Promise<number> => {
  const program = `const server = require("node:net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
    require("node:fs").writeSync(1, String(server.address().port));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });`;
  const child = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  afterFile(async () => void child.kill("SIGKILL"));
  const [text] = (await once(child.stdout, "data")) as [Buffer];
  const port = Number(text.toString());
  const isFull = async (): Promise<boolean> => {
    const filling = connect(port, "127.0.0.1").on("error", () => undefined);
    afterFile(async () => void filling.destroy());
    // The answer of a kernel comes before the timer, unless this process is held up: then it is seen right after it.
    await Promise.race([once(filling, "connect"), delay(300)]);
    await turn();
    return filling.connecting;
  };
  await until(isFull);
  return port;
};

const limits = { connectMs: 300 };

test("a host that does not take the connection, and a name that is not resolved, are 504 after the time for that", async () => {
  const port = await fullPort();
  const door = await open({ ...toPort(port), limits });
  expect(await first(dial(door.socket), connectTo(port))).toMatch(/^HTTP\/1\.1 504 /);
  expect(await first(dial(door.socket), get(`http://127.0.0.1:${port}/`))).toMatch(/^HTTP\/1\.1 504 /);
  const names = {
    hosts: parseHosts(["slow.example.com"]),
    resolve: () => new Promise<string[]>(() => undefined),
  };
  const slow = await open({ ...names, limits });
  expect(await first(dial(slow.socket), connectTo("slow.example.com:443"))).toMatch(/^HTTP\/1\.1 504 /);
});

test("a model that does not finish the handshake is 504, and so is a host that says nothing", async () => {
  const port = await listen(createTcp((socket) => void socket.on("error", () => undefined).resume()));
  const route = { paths: /^\/v1\//, target: new URL(`https://127.0.0.1:${port}`), headers: {} };
  const door = await open({ routes: [route], ...toPort(port), limits: { ...limits, silentMs: 500 } });
  expect(await first(dial(door.socket), get("/v1/models"))).toMatch(/^HTTP\/1\.1 504 /);
  expect(await first(dial(door.socket), get(`http://127.0.0.1:${port}/`))).toMatch(/^HTTP\/1\.1 504 /);
  const tunnelled = dial(door.socket);
  expect(await first(tunnelled, connectTo(port))).toMatch(/ 200 /);
  await once(tunnelled.resume(), "close");
});

test.each([
  ["nothing", ""],
  ["half a request", "GET /v1/mod"],
  ["half a body", "POST /v1/models HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhe"],
])("a client that sends %s and stays is let go", async (_, bytes) => {
  const port = await listen(createServer(() => undefined));
  const route = { paths: /^\/v1\//, target: new URL(`http://127.0.0.1:${port}`), headers: {} };
  const door = await open({ routes: [route], limits: { ...limits, silentMs: 500 } });
  const client = dial(door.socket);
  client.write(bytes);
  await once(client.resume(), "end");
});

test("clients that are refused and neither read nor leave keep no place", async () => {
  const door = await open({});
  for (const bytes of [connectTo("evil.example.com:443"), "garbage\r\n\r\n"])
    for (let n = 0; n < 300; n += 1) {
      const client = connect({ path: door.socket, allowHalfOpen: true }).on("error", () => undefined);
      afterFile(async () => void client.destroy());
      client.write(bytes);
    }
  expect(await until(() => first(dial(door.socket), connectTo("evil.example.com:443")))).toMatch(/ 403 /);
});

test("256 connections are held at once, one more is closed, and there is room again when one ends", async () => {
  const port = await listen(createTcp((socket) => void socket.on("error", () => undefined).resume()));
  const door = await open({ ...toPort(port), limits: { connectMs: 60_000 } });
  const held: Socket[] = [];
  for (let n = 0; n < 256; n += 1) held.push(dial(door.socket));
  for (const client of held) expect(await first(client, connectTo(port))).toMatch(/ 200 /);
  expect(await first(dial(door.socket), connectTo(port))).toBe("");
  held[0]?.destroy();
  expect(await until(() => first(dial(door.socket), connectTo(port)))).toMatch(/ 200 /);
});

const word = "the-word";

/** The door's port of 127.0.0.1, with a route to a model that says hello. */
const openPort = async (limits: DoorOptions["limits"] = {}) => {
  const model = await listen(createServer((_asked, answer) => answer.end("hello")));
  const route = { paths: /^\/v1\//, target: new URL(`http://127.0.0.1:${model}`), headers: {} };
  return (await open({ routes: [route], word, limits })).port ?? 0;
};

const dialPort = (port: number): Socket => {
  const client = connect(port, "127.0.0.1").on("error", () => undefined);
  afterFile(async () => void client.destroy());
  return client;
};

const askModel = `GET /v1/models HTTP/1.1\r\nhost: a\r\nx-api-key: ${word}\r\n\r\n`;

test("400 silent connections of a stranger delay no request of the run, and are closed after 2 s", async () => {
  const port = await openPort();
  const began = performance.now();
  const silent = Array.from({ length: 400 }, () => dialPort(port));
  const ended = silent.map((client) => once(client.resume(), "close").then(() => performance.now() - began));
  const connecting = silent.filter((client) => client.connecting);
  await Promise.all(connecting.map((client) => once(client, "connect")));
  // While they keep coming.
  const more = setInterval(() => ended.push(once(dialPort(port).resume(), "close").then(() => 0)), 5);
  afterFile(async () => clearInterval(more));
  for (let n = 0; n < 20; n += 1) expect(await first(dialPort(port), askModel)).toMatch(/^HTTP\/1\.1 200 /);
  clearInterval(more);
  const times = await Promise.all(ended);
  // The oldest gave their places to the newest.
  expect(times.slice(300, 400).filter((ms) => ms > 1900).length).toBeGreaterThan(0);
});

test.each([
  ["half a request", "GET /v1/mod"],
  ["a byte of it now and then", null],
  ["another word", "GET /v1/models HTTP/1.1\r\nhost: a\r\nx-api-key: another\r\n\r\n"],
])("a stranger that sends %s is let go as well", async (_, bytes) => {
  const client = dialPort(await openPort({ wordMs: 300 }));
  const drip = setInterval(() => client.write("G"), 50);
  afterFile(async () => clearInterval(drip));
  if (bytes !== null) {
    clearInterval(drip);
    client.write(bytes);
  }
  await once(client.resume(), "close");
  clearInterval(drip);
});

test("who has said the word stays, without saying it again", async () => {
  const client = dialPort(await openPort({ wordMs: 100 }));
  expect(await first(client, askModel)).toMatch(/ 200 /);
  await delay(400);
  expect(await first(client, askModel.replace(/x-api-key.*\r\n/, ""))).toMatch(/^HTTP\/1\.1 200 /);
});

test("of those that have said the word 256 are held at once, and one more when one ends", async () => {
  const port = await openPort({ wordMs: 60_000 });
  const held: Socket[] = [];
  for (let n = 0; n < 256; n += 1) held.push(dialPort(port));
  for (const client of held) expect(await first(client, askModel)).toMatch(/ 200 /);
  expect(await first(dialPort(port), askModel)).toBe("");
  held[0]?.destroy();
  expect(await until(() => first(dialPort(port), askModel))).toMatch(/ 200 /);
});

test("a client that asks for more before the first answer gets no more connections to a host", async () => {
  let connections = 0;
  const port = await listen(
    createTcp((socket) => {
      connections += 1;
      socket
        .on("error", () => undefined)
        .once("data", () => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"));
    }),
  );
  const door = await open(toPort(port));
  const client = dial(door.socket);
  client.write(get(`http://127.0.0.1:${port}/`).repeat(500));
  await once(client.resume(), "end");
  expect(connections).toBeLessThanOrEqual(1);
});

test.each([
  ["by CONNECT", (port: number) => connectTo(port), ""],
  ["by http", (port: number) => get(`http://127.0.0.1:${port}/`), "HTTP/1.1 200 OK\r\n\r\n"],
])("a host that floods a client that does not read is held back, %s", async (_, asked, head) => {
  const most = 64 * 2 ** 20;
  let sent = 0;
  let stopped = 0;
  const piece = Buffer.alloc(64 * 1024);
  const port = await listen(
    createTcp((socket) => {
      const flood = (): void => {
        while (sent < most) {
          sent += piece.length;
          if (!socket.write(piece)) return;
        }
      };
      socket.on("error", () => undefined).on("drain", flood);
      socket.write(head);
      flood();
    }),
  );
  const door = await open(toPort(port));
  const client = dial(door.socket).pause();
  client.write(asked(port));
  let before = -1;
  await until(() => {
    stopped = sent === before && sent > 0 ? stopped + 1 : 0;
    before = sent;
    return sent >= most || stopped >= 20;
  });
  expect(sent).toBeLessThan(most / 2);
  // The others go on meanwhile.
  expect(await first(dial(door.socket), connectTo("evil.example.com:443"))).toMatch(/ 403 /);
});

test("a client that floods a host that does not read is held back", async () => {
  const port = await listen(createTcp((socket) => void socket.on("error", () => undefined).pause()));
  const door = await open(toPort(port));
  const client = dial(door.socket);
  expect(await first(client, connectTo(port))).toMatch(/ 200 /);
  const piece = Buffer.alloc(64 * 1024);
  let sent = 0;
  const flood = (): void => {
    while (sent < 64 * 2 ** 20) {
      sent += piece.length;
      if (!client.write(piece)) return;
    }
  };
  client.on("drain", flood);
  flood();
  let [before, stopped] = [-1, 0];
  await until(() => {
    stopped = sent === before ? stopped + 1 : 0;
    before = sent;
    return sent >= 64 * 2 ** 20 || stopped >= 20;
  });
  expect(sent).toBeLessThan(32 * 2 ** 20);
});

test("no other user of the machine can reach the socket", async () => {
  const door = await open({});
  for (const [path, mode] of [
    [dirname(door.socket), 0o700],
    [door.socket, 0o600],
  ] as const) {
    const found = await stat(path);
    expect([found.mode & 0o777, found.uid]).toEqual([mode, process.getuid?.()]);
  }
  const program = `require("node:net").connect(${JSON.stringify(door.socket)}).on("error", (error) => console.log(error.code)).on("connect", () => console.log("connected"))`;
  const said = async (...as: string[]): Promise<string> => {
    const [command, ...args] = [...as, process.execPath, "-e", program];
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"], cwd: "/" });
    const [text] = (await once(child.stdout, "data")) as [Buffer];
    child.kill("SIGKILL");
    return text.toString().trim();
  };
  expect(await said()).toBe("connected");
  // Only root can become another user and try.
  const others =
    process.getuid?.() === 0 ? [["setpriv", "--reuid", "20001", "--regid", "20001", "--clear-groups"]] : [];
  expect(await Promise.all(others.map((as) => said(...as)))).toEqual(others.map(() => "EACCES"));
});
