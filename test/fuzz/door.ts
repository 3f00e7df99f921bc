import { once } from "node:events";
import { readdirSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, createServer as createTcp, type AddressInfo, type Server, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import pLimit from "p-limit";
import { parseHosts } from "../../src/lib/allowed-hosts.ts";
import { openDoor } from "../../src/sandbox/door.ts";
import { until } from "../until.ts";
import { chanceOf, pick, type Chance } from "./chance.ts";

export type DoorTally = {
  seed: number;
  asked: number;
  /** By the status that came back; `closed`: none did. */
  answers: Record<string, number>;
  /** Longest time to an answer or a close, ms. */
  longest: number;
  files: { early: number; late: number };
  /** Bytes of the heap, late less early. */
  growth: number;
  faults: string[];
};

const ownAddresses = Object.values(networkInterfaces()).flatMap((all) =>
  (all ?? []).map(({ address }) => address),
);

/** This host, as a program may write it. */
const localForms = [
  ..."127.0.0.1 127.1 127.0.1 0x7f.1 0x7f000001 2130706433 017700000001 0177.0.0.1 0 0.0.0.0 127.0.0.1. localhost LOCALHOST localhost.".split(
    " ",
  ),
  ..."[::1] [::] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [::7f00:1] [64:ff9b::127.0.0.1] [64:ff9b::7f00:1]".split(
    " ",
  ),
  ..."[64:ff9b:1::7f00:1] [2002:7f00:1::] [2002:7f00:1::1] [::ffff:0:7f00:1] [2001:0:7f00:1::] [fe80::1%lo] [fe80::1%25lo] [::1%lo]".split(
    " ",
  ),
  ..."127。0。0。1 127%2e0%2e0%2e1 %31%32%37.0.0.1 ①②⑦.0.0.1 169.254.169.254 [fd00:ec2::254] 127.0.0.1%00.rebound.test".split(
    " ",
  ),
  ...ownAddresses.map((address) => (address.includes(":") ? `[${address}]` : address)),
];

/** To the last no packet leaves the machine: it is an address for documentation. */
const answers = [...localForms.map((form) => form.replaceAll(/[[\]]/g, "")), "2001:db8::1", "2001:db8::2"];

const names = [
  "rebound.test",
  "a.wild.test",
  "b.a.wild.test",
  "REBOUND.test",
  "rebound.test.",
  "wild.test",
  "xwild.test",
];

const paths = [
  ..."/v1/messages /v1/models?a=b /v1/ /v1 /v1/../x /v1/%2e%2e/x /v1/..%2fx /v1/.%2e/x /v1/%252e%252e/x //v1/x /v1//x /v1/\\..\\x".split(
    " ",
  ),
  ..."/v1/..;/x /V1/x /v1/x#/../y /v1/x?/../y /v1/./x /../v1/x /v1/%00 /x /otlp/v1/logs /otlp/v1/../../x /mcp *".split(
    " ",
  ),
];

const methods = ["GET", "POST", "HEAD", "DELETE", "PUT", "TRACE", "OPTIONS", "CONNECT", "PRI", "get", "G\0T"];

const headers = [
  "Host: 127.0.0.1:PORT",
  "Host: a\r\nHost: 127.0.0.1:PORT",
  "content-length: 5",
  "content-length: 0",
  "content-length: 5\r\ncontent-length: 6",
  "content-length: +5",
  "content-length: 5, 5",
  "content-length: 99999999999999999999",
  "transfer-encoding: chunked",
  "transfer-encoding: chunked\r\ncontent-length: 5",
  "transfer-encoding: xchunked",
  "transfer-encoding: identity, chunked",
  "transfer-encoding : chunked",
  "transfer-encoding:\tchunked",
  "transfer-encoding\r\n : chunked",
  "x: a\r\n folded: b",
  "x: a\nHost: 127.0.0.1:PORT",
  "x: a\rb",
  "x: \0",
  "connection: content-length",
  "connection: transfer-encoding, host, x-api-key",
  "connection: close",
  "connection: upgrade\r\nupgrade: websocket",
  "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__",
  "expect: 100-continue",
  "expect: more",
  "proxy-authorization: Basic YTpi",
  "x-forwarded-host: 127.0.0.1:PORT",
  "x-api-key: mine",
  "authorization: Bearer mine",
  ": empty",
  "no colon",
  `x: ${"a".repeat(20_000)}`,
  Array.from({ length: 300 }, (_, n) => `x${n}: a`).join("\r\n"),
];

const authority = (chance: Chance, ports: Ports): string => {
  const host = pick(chance, chance(3) === 0 ? names : localForms);
  const port =
    chance(3) > 0
      ? ports.trap
      : pick(chance, [ports.host, 80, 443, 0, 65_536, "", "0x50", `0${ports.trap}`, `+${ports.trap}`]);
  const shown = port === "" ? host : `${host}:${port}`;
  const tricks = [
    `a@${shown}`,
    `127.0.0.1:${ports.host}@${shown}`,
    `${shown}/`,
    `${shown}\\@rebound.test`,
    `${shown}?@rebound.test`,
    `rebound.test:${ports.trap}#@${shown}`,
    ` ${shown}`,
    `${shown}\t`,
  ];
  return chance(5) > 0 ? shown : pick(chance, tricks);
};

const target = (chance: Chance, ports: Ports): string => {
  const path = chance(4) === 0 ? "/v1/messages?beta=true" : pick(chance, paths);
  const scheme =
    chance(2) === 0
      ? "http://"
      : pick(chance, [
          "HTTP://",
          "http:/",
          "http:",
          "//",
          "https://",
          "ftp://",
          "ws://",
          "file://",
          "unix:/",
        ]);
  const kind = chance(6);
  if (kind < 2) return path;
  if (kind === 2)
    return `http://${pick(chance, ["model.invalid", "service.invalid", "model.invalid:80", "model.invalid.", "a.model.invalid"])}${path}`;
  return `${scheme}${authority(chance, ports)}${path}`;
};

const request = (chance: Chance, ports: Ports): string => {
  const isConnect = chance(3) === 0;
  const method = isConnect ? "CONNECT" : pick(chance, methods.slice(0, chance(6) === 0 ? methods.length : 2));
  const asked = isConnect && chance(8) > 0 ? authority(chance, ports) : target(chance, ports);
  const version = chance(16) > 0 ? "HTTP/1.1" : pick(chance, ["HTTP/1.0", "HTTP/2.0", "HTTP/9", ""]);
  const lines = Array.from({ length: Math.max(0, chance(5) - 2) }, () =>
    pick(chance, headers).replaceAll("PORT", String(ports.trap)),
  );
  const host = chance(6) === 0 ? [] : ["host: a"];
  const end = chance(12) === 0 ? "\n" : "\r\n";
  const pause = chance(12) === 0 ? "\t" : " ";
  return [[method, asked, version].join(pause), ...host, ...lines, "", ""].join(end);
};

const bodies = (chance: Chance, ports: Ports): string => {
  if (chance(3) > 0) return "";
  const one = pick(chance, [
    () => "hello",
    () => "5\r\nhello\r\n0\r\n\r\n",
    () => `5;a=b\r\nhello\r\n0\r\nx-api-key: b\r\n\r\n`,
    () => "fffffffffffffffff\r\n",
    () => request(chance, ports),
    () => `0\r\n\r\n${request(chance, ports)}`,
    () => Array.from({ length: 20 }, () => request(chance, ports)).join(""),
  ]);
  return one();
};

/** As the bytes of a request, one in three with a few of them changed. */
const bytesOf = (chance: Chance, ports: Ports): Buffer => {
  const bytes = [...Buffer.from(`${request(chance, ports)}${bodies(chance, ports)}`)];
  for (let left = chance(4) === 0 ? 1 + chance(4) : 0; left > 0; left -= 1)
    bytes.splice(
      chance(bytes.length + 1),
      chance(3),
      ...Array.from({ length: chance(3) }, () => chance(256)),
    );
  return Buffer.from(bytes);
};

/** None, when one is no host. */
const hostsOf = (texts: string[]) => {
  try {
    return parseHosts(texts);
  } catch {
    return [];
  }
};

type Ports = { trap: number; host: number };

/** How the bytes are sent: at once or in two parts, and what the client then does. */
const send = async (client: Socket, bytes: Buffer, chance: Chance): Promise<void> => {
  const at = chance(4) === 0 ? chance(bytes.length + 1) : bytes.length;
  client.write(bytes.subarray(0, at));
  if (at < bytes.length && chance(2) === 0) await new Promise(setImmediate);
  const then = chance(8);
  if (then === 0) client.destroy();
  else if (then === 1) client.end(bytes.subarray(at));
  else if (then > 2) client.write(bytes.subarray(at));
};

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const canary = "canary-of-the-model";
const limits = { connectMs: 400, silentMs: 800 };

/** An answer or a close must come after this time, ms: as often as a request may wait, and more on a busy machine. */
const longestWait = 15_000;

/**
 * Asks a door so many hostile requests: malformed, smuggled, with names that lead to this host in all forms and change
 * meanwhile. All hosts are on loopback. One that is not allowed waits there for a byte.
 */
export const fuzzDoor = async ({
  count,
  seed,
  from = 0,
  onBatch = () => undefined,
}: {
  count: number;
  seed: number;
  from?: number;
  onBatch?: (tally: DoorTally) => void;
}): Promise<DoorTally> => {
  const tally: DoorTally = {
    seed,
    asked: 0,
    answers: {},
    longest: 0,
    files: { early: 0, late: 0 },
    growth: 0,
    faults: [],
  };
  let current = from;
  const fault = (what: string): void => {
    if (tally.faults.length < 20) tally.faults.push(`near ${seed}:${current}: ${what.slice(0, 500)}`);
  };
  const thrown = (error: unknown): void => fault(`the process throws ${String(error)}`);
  process.on("uncaughtException", thrown).on("unhandledRejection", thrown);
  const trap = createTcp((socket) => {
    fault(`a connection to this host`);
    socket
      .on("data", (piece) => fault(`a byte to this host: ${piece.toString("latin1")}`))
      .on("error", () => undefined);
  });
  const answerAll =
    (check: (asked: IncomingMessage) => string | null) =>
    (asked: IncomingMessage, answer: ServerResponse) => {
      const wrong = check(asked);
      if (wrong !== null) fault(`${wrong}: ${asked.method} ${asked.url} ${JSON.stringify(asked.headers)}`);
      asked.resume().on("error", () => undefined);
      answer.end("ok");
    };
  const model = createServer(
    answerAll(({ url = "", headers: { "x-api-key": key } }) =>
      key === canary && /^\/base(\/v1)?\/(v1\/)?[\w/]*(\?.*)?$/.test(url)
        ? null
        : "a request to the model that no route makes",
    ),
  );
  const host = createServer(
    answerAll((asked) =>
      JSON.stringify([asked.rawHeaders, asked.url]).includes(canary) ? "the credential to a host" : null,
    ),
  );
  const servers: Server[] = [trap, model, host];
  for (const server of servers)
    await once(server.listen(0, server === trap ? "::" : "127.0.0.1"), "listening");
  const [trapPort = 0, modelPort = 0, hostPort = 0] = servers.map(
    (server) => (server.address() as AddressInfo).port,
  );
  const ports: Ports = { trap: trapPort, host: hostPort };
  const resolving = chanceOf(seed);
  const open = (word: string | null) => {
    const route = { target: new URL(`http://127.0.0.1:${modelPort}/base`), headers: { "x-api-key": canary } };
    return openDoor({
      routes: [
        { ...route, paths: /^\/v1\// },
        { ...route, paths: /^\/otlp(\/v1\/(?:traces|metrics|logs))$/ },
      ],
      hosts: [
        ...parseHosts([`127.0.0.1:${hostPort}`], true),
        // As a profile could name them, and in vain.
        ...["rebound.test", "*.wild.test", ...localForms].flatMap((name) =>
          hostsOf([name, `${name}:${trapPort}`]),
        ),
      ],
      onDenied: (name) => name.length > 300 && fault(`a name of ${name.length} characters is told`),
      word,
      resolve: async () => Array.from({ length: resolving(4) }, () => pick(resolving, answers)),
      limits,
    });
  };
  const door = await open(null);
  const guarded = await open("word-of-the-run");
  const ask = async (number: number): Promise<void> => {
    const chance = chanceOf(seed + number * 7919);
    const bytes = bytesOf(chance, ports);
    const isStranger = chance(5) === 0;
    const place = isStranger ? { port: guarded.port ?? 0, host: "127.0.0.1" } : { path: door.socket };
    const client = connect({ ...place, allowHalfOpen: true });
    client.on("error", () => undefined);
    let said = "";
    client.on("data", (piece) => (said += piece.toString("latin1")));
    const began = performance.now();
    const over = new Promise((resolve) =>
      client.once("data", resolve).once("end", resolve).once("close", resolve),
    );
    const late = setTimeout(
      () => (fault(`${number}: no answer to ${bytes.toString("latin1")}`), client.destroy()),
      longestWait,
    );
    await send(client, bytes, chance);
    await over;
    clearTimeout(late);
    tally.longest = Math.max(tally.longest, Math.round(performance.now() - began));
    if (said.includes(canary)) fault(`the credential comes back: ${said}`);
    if (isStranger && / 200 /.test(said)) fault(`${number}: a stranger is let in: ${said}`);
    const status = /^HTTP\/1\.1 (\d{3})/.exec(said)?.[1] ?? "closed";
    tally.answers[status] = (tally.answers[status] ?? 0) + 1;
    tally.asked += 1;
    client.destroy();
  };
  const files = (): number => readdirSync("/proc/self/fd").length;
  const heap = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const limit = pLimit(24);
  const batch = Math.max(100, Math.round(count / 20));
  let early = 0;
  try {
    for (let at = from; at < from + count; at += batch) {
      await Promise.all(
        Array.from({ length: Math.min(batch, from + count - at) }, (_, index) =>
          limit(() => ask((current = at + index))),
        ),
      );
      if (at - from < Math.max(batch, count / 5)) [tally.files.early, early] = [files(), heap()];
      onBatch(tally);
    }
    const isBack = async (): Promise<boolean> => (tally.files.late = files()) - tally.files.early <= 30;
    await until(isBack, { seconds: 20 }).catch(() =>
      fault(`files stay open: ${JSON.stringify(tally.files)}`),
    );
    tally.growth = heap() - early;
    if (tally.growth > 16 * 2 ** 20 + count * 512) fault(`the heap grows by ${tally.growth} bytes`);
  } finally {
    await door[Symbol.asyncDispose]();
    await guarded[Symbol.asyncDispose]();
    for (const server of servers) server.close();
    model.closeAllConnections();
    host.closeAllConnections();
    process.off("uncaughtException", thrown).off("unhandledRejection", thrown);
  }
  return tally;
};
