import { lookup as lookUp } from "node:dns/promises";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import {
  createServer,
  Agent,
  request as plainRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { connect, isIP, type LookupFunction, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline, type Duplex } from "node:stream";
import { isRefusedAddress } from "./addresses.ts";
import { judge, type AllowedHost } from "../lib/allowed-hosts.ts";

/** A part of the door that leads to one address of the operator's: the model, the service's receiver of telemetry. */
export type Route = {
  /** Paths that it takes, as the client asks for them. */
  paths: RegExp;
  /** Where they lead: its path comes before the client's. */
  target: URL;
  /** They replace the client's of the same name, and its credentials go: `authorization`, `x-api-key`. */
  headers: Readonly<Record<string, string>>;
};

export type DoorOptions = {
  routes: readonly Route[];
  hosts: readonly AllowedHost[];
  /** Called for each refusal: `registry.example.com:443`. */
  onDenied: (name: string) => void;
  /** Resolves a name to addresses; absent: by the system. */
  resolve?: (name: string) => Promise<string[]>;
};

export type Door = AsyncDisposable & {
  /** Path of the socket. Only the service's user can reach it. */
  socket: string;
};

/** Most connections at once, and how long one may take to be made, and to be silent, ms. */
const limits = { connections: 256, connectMs: 10_000, silentMs: 600_000 };

/**
 * The only way out of a sandbox: a proxy on a Unix socket of one run.
 *
 * | request | what becomes of it |
 * |---|---|
 * | `/path` of a route | goes to the route's target, with the credential that only the service knows |
 * | any other `/path` | 404 |
 * | CONNECT, `http://host/…`, and the host is in the list | goes there |
 * | the same, not in the list, or it leads to an address of this host, link-local or of metadata | 403, and told |
 * | the name cannot be resolved; the host cannot be reached | 502; 504 after 10 s |
 *
 * Names are resolved here, and the connection goes to the address that was judged: a name that changes meanwhile gains
 * nothing. Redirects are the client's to follow, so each is judged anew.
 */
export const openDoor = async (options: DoorOptions): Promise<Door> => {
  const directory = await mkdtemp(join(tmpdir(), "svc-door-"));
  const socket = join(directory, "s");
  const open = new Set<Duplex>();
  const track = (stream: Duplex): void => {
    open.add(stream);
    stream.once("close", () => open.delete(stream));
  };
  const agents = { http: new Agent({ keepAlive: true }), https: new TlsAgent({ keepAlive: true }) };
  const server = createServer({ keepAliveTimeout: 60_000, requestTimeout: 0 }, (asked, answer) => {
    const forwarding =
      asked.url?.startsWith("/") === true ? toRoute(options, agents, asked) : toHost(options, asked);
    void forwarding
      .then((target) => pass(asked, answer, target))
      .catch((error: unknown) => refuse(answer, error));
  });
  server.maxConnections = limits.connections;
  server.on("connection", track);
  server.on("connect", (asked, client, head) => {
    client.on("error", () => client.destroy());
    void tunnel(options, asked, track).then(
      (host) => {
        if (client.destroyed) return void host.destroy();
        client.write("HTTP/1.1 200 Connection established\r\n\r\n");
        if (head.length > 0) host.write(head);
        // Either may end its half first.
        client.pipe(host).pipe(client);
        client.once("close", () => host.destroy());
        host.once("close", () => client.destroy());
        host.on("error", () => host.destroy());
      },
      (error: unknown) => {
        const { status, message } = refusalOf(error);
        client.end(
          `HTTP/1.1 ${status} Refused\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n${message}\n`,
        );
      },
    );
  });
  server.on("clientError", (_error, client) => {
    if (client.writable) client.end("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
    else client.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(socket, resolve);
  });
  await chmod(socket, 0o600);
  return {
    socket,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const stream of open) stream.destroy();
      agents.http.destroy();
      agents.https.destroy();
      await closed;
      await rm(directory, { recursive: true, force: true });
    },
  };
};

/** A request that the door answers itself. */
class Refusal extends Error {
  readonly status: 400 | 403 | 404 | 502 | 504;
  constructor(status: Refusal["status"], message: string) {
    super(message);
    this.status = status;
  }
}

const refusalOf = (error: unknown): Refusal =>
  error instanceof Refusal
    ? error
    : new Refusal(
        502,
        `The host cannot be reached: ${error instanceof Error ? error.message : String(error)}`,
      );

const refuse = (answer: ServerResponse, error: unknown): void => {
  const { status, message } = refusalOf(error);
  if (answer.headersSent) return void answer.destroy();
  answer.writeHead(status, { "content-type": "text/plain", connection: "close" });
  answer.end(`${message}\n`);
};

type Forwarded = {
  url: URL;
  /** Null: by the system. */
  lookup: LookupFunction | null;
  headers: Record<string, string | string[]>;
  agent: Agent | TlsAgent | null;
};

const toRoute = async (
  { routes }: DoorOptions,
  agents: { http: Agent; https: TlsAgent },
  asked: IncomingMessage,
): Promise<Forwarded> => {
  const url = asked.url ?? "";
  const route = routes.find(({ paths }) => paths.test(url));
  // Dots would lead out of the paths that the route takes.
  if (route === undefined || new URL(url, "http://door").pathname !== url.replace(/[?#].*$/, ""))
    throw new Refusal(404, "There is nothing at this path");
  const { target, headers } = route;
  const place = new URL(target);
  const [path = "", query = ""] = url.split(/\?(.*)/s);
  place.pathname = `${target.pathname.replace(/\/+$/, "")}${path}`;
  place.search = query;
  const { authorization: _a, "x-api-key": _k, ...kept } = endToEnd(asked);
  const agent = place.protocol === "https:" ? agents.https : agents.http;
  return { url: place, lookup: null, agent, headers: { ...kept, ...headers, host: place.host } };
};

const toHost = async (options: DoorOptions, asked: IncomingMessage): Promise<Forwarded> => {
  const url = URL.canParse(asked.url ?? "") ? new URL(asked.url ?? "") : null;
  if (url?.protocol !== "http:" || url.username !== "" || url.password !== "")
    throw new Refusal(400, "Ask for http://host/path, or CONNECT host:port");
  const name = url.hostname.replace(/^\[|\]$/g, "");
  const lookup = await judged(options, { name, port: Number(url.port || 80) });
  return { url, lookup, agent: null, headers: { ...endToEnd(asked), host: url.host } };
};

/** Answers with the addresses that were judged, whatever the name says by then. @throws Refusal */
const judged = async (
  { hosts, onDenied, resolve = system }: DoorOptions,
  target: { name: string; port: number },
): Promise<LookupFunction> => {
  const shown = `${target.name.includes(":") ? `[${target.name}]` : target.name}:${target.port}`;
  const deny = (why: string): never => {
    onDenied(shown);
    throw new Refusal(403, `${shown} ${why}`);
  };
  const how = judge(hosts, target);
  if (how === "refused") deny("is not in the list of hosts that this run may reach");
  const addresses = isIP(target.name) === 0 ? await resolve(target.name).catch(() => []) : [target.name];
  if (addresses.length === 0) throw new Refusal(502, `${target.name} cannot be resolved`);
  const good = how === "local" ? addresses : addresses.filter((each) => !isRefusedAddress(each));
  if (good.length === 0) deny("leads to an address that no agent may reach");
  const found = good.map((address) => ({ address, family: isIP(address) }));
  return (_name, { all }, callback) => {
    const [{ address, family }] = found as [(typeof found)[0]];
    if (all === true) callback(null, found);
    else callback(null, address, family);
  };
};

const system = async (name: string): Promise<string[]> =>
  (await lookUp(name, { all: true })).map(({ address }) => address);

const tunnel = async (
  options: DoorOptions,
  { url = "" }: IncomingMessage,
  track: (stream: Duplex) => void,
): Promise<Socket> => {
  const [, bracketed, plain, port] =
    /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]{1,255})):(\d{1,5})$/i.exec(url) ?? [];
  const target = { name: bracketed ?? plain ?? "", port: Number(port) };
  if (target.name === "" || target.port < 1 || target.port > 65_535)
    throw new Refusal(400, "CONNECT takes host:port");
  const lookup = await judged(options, target);
  const socket = connect({ host: target.name, port: target.port, lookup });
  track(socket);
  socket.setTimeout(limits.connectMs, () => socket.destroy(new Refusal(504, `${url} does not answer`)));
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  socket.setTimeout(limits.silentMs, () => socket.destroy());
  socket.setNoDelay(true);
  return socket;
};

const hopByHop = new Set(
  "connection expect keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split(
    " ",
  ),
);

/** Headers that are not of one connection only. */
const endToEnd = ({ headers }: IncomingMessage): Record<string, string | string[]> => {
  const named = (headers.connection ?? "").toLowerCase().split(/\s*,\s*/);
  return Object.fromEntries(
    Object.entries(headers).filter(
      (entry): entry is [string, string | string[]] =>
        entry[1] !== undefined && !hopByHop.has(entry[0]) && !named.includes(entry[0]),
    ),
  );
};

/** Passes the request on, and the answer back piece by piece. */
const pass = async (asked: IncomingMessage, answer: ServerResponse, target: Forwarded): Promise<void> => {
  const { url, lookup, headers, agent } = target;
  const start = url.protocol === "https:" ? tlsRequest : plainRequest;
  const sent = start(url, {
    method: asked.method ?? "GET",
    headers,
    agent: agent ?? false,
    ...(lookup !== null && { lookup }),
  });
  const silent = setTimeout(
    () => sent.destroy(new Refusal(504, `${url.host} does not answer`)),
    limits.connectMs,
  );
  sent.once("socket", (socket) => {
    if (socket.connecting) socket.once("connect", () => clearTimeout(silent));
    else clearTimeout(silent);
  });
  sent.setTimeout(limits.silentMs, () => sent.destroy(new Refusal(504, `${url.host} does not answer`)));
  answer.once("close", () => sent.destroy());
  pipeline(asked, sent, () => undefined);
  try {
    const got = await new Promise<IncomingMessage>((resolve, reject) => {
      sent.once("response", resolve);
      sent.once("error", reject);
    });
    answer.writeHead(got.statusCode ?? 502, endToEnd(got));
    answer.flushHeaders();
    pipeline(got, answer, () => undefined);
  } finally {
    clearTimeout(silent);
  }
};
