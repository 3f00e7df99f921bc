import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import http, { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import {
  connect,
  createServer,
  isIP,
  type AddressInfo,
  type LookupFunction,
  type Server,
  type Socket,
} from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline, type Duplex } from "node:stream";
import { addressesOf, byTheSystem, isRefusedAddress } from "../lib/addresses.ts";
import { judge, type AllowedHost } from "../lib/allowed-hosts.ts";
import { endToEnd } from "../lib/end-to-end.ts";
import { connectThrough, proxyAgents, type ProxyAgent } from "../lib/upstream.ts";

/** A part of the door that leads to one address of the operator's: the model, the service's receiver of telemetry. */
export type Route = {
  /** Paths that it takes, without the query. A group in it is the part that goes to the target; without one all of it. */
  paths: RegExp;
  /** Where they lead: its path comes before the client's. */
  target: URL;
  /** Take the place of the client's credentials, `authorization` and `x-api-key`. Null: the client's own go there. */
  headers: Readonly<Record<string, string>> | null;
};

export type DoorOptions = {
  routes: readonly Route[];
  hosts: readonly AllowedHost[];
  /** Called for each refusal: `registry.example.com:443`. */
  onDenied: (name: string) => void;
  /**
   * What only the run knows. With it the door is at a port of 127.0.0.1 as well, which others can reach, and answers nobody
   * who does not say it. Null, absent: who reaches the socket is the run.
   */
  word?: string | null;
  /** Directory for the one of its socket. */
  within?: string;
  /** The proxy through which an address is reached; null: none. Absent: as the service's environment says. */
  proxy?: (url: URL) => string | null;
  /** Resolves a name to addresses; absent: by the system. */
  resolve?: (name: string) => Promise<string[]>;
  limits?: Partial<typeof usual>;
};

export type Door = AsyncDisposable & {
  /** Path of the socket. Only the service's user can reach it. */
  socket: string;
  /** Of 127.0.0.1; null: it has none. */
  port: number | null;
};

/** Most connections at once; how long the head of a request, a name or a connection may take; longest silence. */
const usual = { atOnce: 256, connectMs: 10_000, silentMs: 600_000 };

type Settings = Required<Omit<DoorOptions, "proxy">> & {
  proxies: ReturnType<typeof proxyAgents>;
  agents: Record<string, http.Agent>;
  limits: typeof usual;
};

/**
 * The only way out of a sandbox: a proxy on a Unix socket of one run.
 *
 * | request | what becomes of it |
 * |---|---|
 * | `/path` of a route, or `http://any.invalid/path` | goes to the route's target, with what only the service knows |
 * | any other `/path` | 404 |
 * | CONNECT, `http://host/…`, and the host is in the list | goes there |
 * | the same, not in the list, or it leads to an address of this host, link-local or of metadata | 403, and told |
 * | the name cannot be resolved; the host cannot be reached | 502; 504 after 10 s |
 *
 * Names are resolved here, and the connection goes to the address that was judged: a name that changes meanwhile gains
 * nothing. Redirects are the client's to follow, so each is judged anew. Where the service has a proxy, that resolves names.
 */
export const openDoor = async (options: DoorOptions): Promise<Door> => {
  const kept = { keepAlive: true };
  const agents = { "http:": new http.Agent(kept), "https:": new https.Agent(kept) };
  const limits = { ...usual, ...options.limits };
  const { connectMs, atOnce } = limits;
  const set = { agents, limits, proxies: proxyAgents(options.proxy) };
  const settings: Settings = { resolve: byTheSystem, word: null, within: tmpdir(), ...options, ...set };
  const directory = await mkdtemp(join(settings.within, "door-"));
  const socket = join(directory, "s");
  if (socket.length > 107) throw new Error(`${socket} is too long for a socket: set a shorter TMPDIR`);
  const clients = new Set<Duplex>();
  const [busy, known] = [new WeakSet<Duplex>(), new WeakSet<Duplex>()];
  /** A connection whose client has said the word is the run's. */
  const isRun = ({ socket: client, headers }: IncomingMessage): boolean => {
    if (says(headers, settings.word)) known.add(client);
    return known.has(client);
  };
  let begun = 0;
  /** Counts what is on its way out: a client that has left does not end it at once. */
  const counted = async <Value>(work: () => Promise<Value>): Promise<Value> => {
    if (begun >= atOnce) throw new Refusal(503, "Too many requests at once");
    begun += 1;
    return await work().finally(() => (begun -= 1));
  };
  const times = {
    headersTimeout: connectMs,
    connectionsCheckingInterval: connectMs,
    keepAliveTimeout: 60_000,
  };
  const server = http.createServer({ ...times, requestTimeout: 0 }, (asked, answer) => {
    const { socket: client, url = "" } = asked;
    if (!isRun(asked)) return refuse(answer, stranger);
    // No program asks for more before the first answer: it could hold any number of connections to a host.
    if (busy.has(client)) return void client.destroy();
    busy.add(client);
    answer.once("close", () => busy.delete(client));
    const path = ownPath.exec(url)?.[1];
    counted(async () => {
      const target = path === undefined ? await toHost(settings, asked) : toRoute(settings, asked, path);
      await pass(asked, answer, target, limits);
    }).catch((error: unknown) => refuse(answer, error));
  });
  server.maxConnections = atOnce;
  server.on("connection", (client) => clients.add(client.once("close", () => clients.delete(client))));
  server.on("connect", (asked, client, head) => {
    client.on("error", () => client.destroy());
    if (!isRun(asked)) return say(client, stranger);
    if (ownAuthority.test(asked.url ?? "")) {
      client.write(established);
      client.unshift(head);
      return void server.emit("connection", client);
    }
    counted(() => tunnel(settings, asked)).then(
      (host) => {
        if (client.destroyed) return void host.destroy();
        client.write(established);
        if (head.length > 0) host.write(head);
        client.pipe(host).pipe(client);
        client.once("close", () => host.destroy());
        host.once("close", () => client.destroy());
        host.on("error", () => host.destroy());
      },
      (error: unknown) => say(client, refusalOf(error)),
    );
  });
  server.on("clientError", (_error, client) => say(client, new Refusal(400, "This is no whole request")));
  await once(server.listen(socket), "listening");
  await chmod(socket, 0o600);
  const listener = settings.word === null ? null : await listenAtPort(server, atOnce);
  return {
    socket,
    port: listener === null ? null : (listener.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      listener?.close();
      const closed = new Promise((resolve) => server.close(resolve));
      for (const client of clients) client.destroy();
      for (const agent of [...Object.values(agents), settings.proxies]) agent.destroy();
      await closed;
      await rm(directory, { recursive: true, force: true });
    },
  };
};

const established = "HTTP/1.1 200 Connection established\r\n\r\n";

/** Paths of routes, also behind a name that no host can have. Clients of a proxy want one; some ask for it by CONNECT. */
const ownPath = /^(?:http:\/\/[a-z]+\.invalid(?::80)?)?(\/.*)$/is;
const ownAuthority = /^[a-z]+\.invalid:80$/i;

/** A request that the door answers itself. */
class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Its connections are the server's. */
const listenAtPort = async (server: http.Server, atOnce: number): Promise<Server> => {
  const listener = createServer({ allowHalfOpen: true }, (client) => server.emit("connection", client));
  listener.maxConnections = atOnce;
  await once(listener.listen(0, "127.0.0.1"), "listening");
  return listener;
};

/** Of a set: a comparison of text takes the longer the more of it is right. */
const says = (headers: IncomingHttpHeaders, word: string | null): boolean => {
  const login = `Basic ${Buffer.from(`run:${word}`).toString("base64")}`;
  const said = [headers["proxy-authorization"], headers.authorization, headers["x-api-key"]];
  return word === null || said.some((each) => new Set<unknown>([login, `Bearer ${word}`, word]).has(each));
};

const stranger = new Refusal(407, "This is the door of a run, and needs its word");

/** git tells its password only when it is asked for it. */
const headOf = (status: number): Record<string, string> => ({
  ...(status === 407 && { "proxy-authenticate": 'Basic realm="run"' }),
  "content-type": "text/plain",
  connection: "close",
});

const refusalOf = (error: unknown): Refusal =>
  error instanceof Refusal ? error : new Refusal(502, `The host cannot be reached: ${String(error)}`);

const refuse = (answer: ServerResponse, error: unknown): void => {
  const { status, message } = refusalOf(error);
  if (answer.headersSent) return void answer.destroy();
  answer.writeHead(status, headOf(status)).end(`${message}\n`);
};

/** The last words on a connection. A client that does not read on must not keep it open. */
const say = (client: Duplex, { status, message }: Refusal): void => {
  if (!client.writable) return void client.destroy();
  const lines = Object.entries(headOf(status)).map(([name, value]) => `${name}: ${value}\r\n`);
  client
    .resume()
    .end(`HTTP/1.1 ${status} Refused\r\n${lines.join("")}\r\n${message}\n`, () => client.destroy());
};

type Target = {
  url: URL;
  headers: Record<string, string | string[]>;
  /** How it is reached: a route by connections that are kept, a host at the addresses that were judged. */
  how: Way | { agent: http.Agent };
};

type Way = { agent: ProxyAgent; lookup?: never } | { agent: false; lookup?: LookupFunction };

/** Paths that no server reads in another way: without escapes, and no part begins with a dot. */
const plainPath = /^(?:\/[\w:@~-][\w.:@~-]*)+\/?$/;

const toRoute = ({ routes, agents, proxies }: Settings, asked: IncomingMessage, url: string): Target => {
  const [path = "", query = ""] = url.split(/\?(.*)/s);
  const route = routes.find(({ paths }) => paths.test(path));
  // Not by TRACE: its answer repeats the credential.
  if (route === undefined || !plainPath.test(path) || !/^(GET|HEAD|POST|DELETE)$/.test(asked.method ?? ""))
    throw new Refusal(404, "There is nothing at this path");
  const place = new URL(route.target);
  place.pathname = `${place.pathname.replace(/\/+$/, "")}${route.paths.exec(path)?.[1] ?? path}`;
  place.search = query;
  const { authorization: _a, "x-api-key": _k, ...kept } = endToEnd(asked);
  const headers = route.headers === null ? endToEnd(asked) : { ...kept, ...route.headers };
  const agent = proxies.of(place) ?? agents[place.protocol] ?? false;
  return { url: place, headers: { ...headers, host: place.host }, how: { agent } };
};

const toHost = async (settings: Settings, asked: IncomingMessage): Promise<Target> => {
  const url = URL.canParse(asked.url ?? "") ? new URL(asked.url ?? "") : null;
  if (url?.protocol !== "http:" || url.username !== "" || url.password !== "")
    throw new Refusal(400, "Ask for http://host/path, or CONNECT host:port");
  const name = url.hostname.replace(/^\[|\]$/g, "");
  const how = await judged(settings, { name, port: Number(url.port || 80) });
  return { url, headers: { ...endToEnd(asked), host: url.host }, how };
};

/** By the addresses that were judged, whatever the name says by then, or by the proxy that resolves it. @throws Refusal */
const judged = async (
  { hosts, onDenied, resolve, limits, proxies }: Settings,
  { name, port }: { name: string; port: number },
): Promise<Way> => {
  // It is told to a user, in a command to be copied.
  if (!/^[a-z0-9:][a-z0-9._:-]{0,254}$/i.test(name)) throw new Refusal(400, "This is no name of a host");
  const shown = `${name.includes(":") ? `[${name}]` : name}:${port}`;
  const deny = (why: string): never => {
    onDenied(shown);
    throw new Refusal(403, `${shown} ${why}`);
  };
  const how = judge(hosts, { name, port });
  if (how === "refused") deny("is not in the list of hosts that this run may reach");
  const addresses = await addressesOf(name, resolve, limits.connectMs);
  const good = how === "local" ? addresses : addresses?.filter((each) => !isRefusedAddress(each));
  if (good?.length === 0 && addresses?.length !== 0) deny("leads to an address that no agent may reach");
  // A proxy resolves names as well, also those that have no address here.
  const scheme = port === 80 ? "http" : "https";
  const agent = isIP(name) === 0 ? proxies.of(new URL(`${scheme}://${name}:${port}`)) : null;
  return agent === null ? directly(name, good ?? null) : { agent };
};

const directly = (name: string, addresses: string[] | null): Way => {
  if (addresses === null) throw new Refusal(504, `${name} is not resolved in time`);
  if (addresses.length === 0) throw new Refusal(502, `${name} cannot be resolved`);
  const found = addresses.map((address) => ({ address, family: isIP(address) }));
  return { agent: false, lookup: (_name, _options, callback) => callback(null, found) };
};

const tunnel = async (settings: Settings, { url = "" }: IncomingMessage): Promise<Socket> => {
  const [, bracketed, plain, port] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+)):(\d{1,5})$/i.exec(url) ?? [];
  const target = { name: bracketed ?? plain ?? "", port: Number(port) };
  if (target.name === "" || target.port < 1 || target.port > 65_535)
    throw new Refusal(400, "CONNECT takes host:port");
  const { agent, lookup } = await judged(settings, target);
  const { connectMs, silentMs } = settings.limits;
  if (agent !== false) return await connectThrough(agent, target, connectMs);
  const socket = connect({ host: target.name, port: target.port, noDelay: true, ...(lookup && { lookup }) });
  socket.setTimeout(connectMs, () => socket.destroy(new Refusal(504, `${url} does not answer`)));
  await once(socket, "connect");
  socket.setTimeout(silentMs, () => socket.destroy());
  return socket;
};

/** Passes the request on, and the answer back piece by piece. */
const pass = async (
  asked: IncomingMessage,
  answer: ServerResponse,
  { url, headers, how }: Target,
  { connectMs, silentMs }: typeof usual,
): Promise<void> => {
  const isTls = url.protocol === "https:";
  const { method, headers: given, socket } = asked;
  if (socket.destroyed) return;
  const chunked = given["transfer-encoding"] !== undefined && { "transfer-encoding": "chunked" };
  const sent = (isTls ? https : http).request(url, {
    method,
    headers: { ...headers, ...chunked },
    ...how,
  });
  const late = (): void => void sent.destroy(new Refusal(504, `${url.host} does not answer`));
  const timer = setTimeout(late, connectMs);
  const inTime = (): void => clearTimeout(timer);
  sent.once("socket", (host) => {
    if (host.connecting) host.once(isTls ? "secureConnect" : "connect", inTime);
    else inTime();
  });
  sent.setTimeout(silentMs, late);
  sent.once("close", inTime);
  answer.once("close", () => sent.destroy());
  pipeline(asked, sent, () => undefined);
  const got = await new Promise<IncomingMessage>((resolve, reject) => {
    sent.once("response", resolve);
    sent.on("error", reject);
    // One that changes the protocol ends without either.
    sent.once("close", () => reject(new Error(`${url.host} gave no answer`)));
  });
  answer.writeHead(got.statusCode ?? 502, endToEnd(got));
  answer.flushHeaders();
  pipeline(got, answer, () => undefined);
};
