import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https, { type RequestOptions } from "node:https";
import { connect, isIP, type AddressInfo, type LookupFunction, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline, type Duplex } from "node:stream";
import { TLSSocket, type SecureContext } from "node:tls";
import { addressesOf, byTheSystem, mayLeadTo } from "../lib/addresses.ts";
import { bracketed, isPort, judge, type AllowedHost } from "../lib/allowed-hosts.ts";
import { endToEnd } from "../lib/end-to-end.ts";
import { connectThrough, proxyAgents, type ProxyAgent } from "../lib/upstream.ts";
import { createAuthority } from "./authority.ts";
import { readAnswer, type Meter } from "./meter.ts";
import {
  endedRequest,
  isReadOnly,
  requireHeaderValues,
  requireReading,
  ruleFor,
  takenOut,
  type AgentSecret,
  type HostAndPort,
  type Rule,
} from "./placeholders.ts";
import { Refusal, refusalOf, refuse, say } from "./refusal.ts";
import { toRoute } from "./route.ts";
import type { Run } from "./sandbox.ts";
import { createWord, stranger } from "./word.ts";

export type DoorOptions = Pick<Run, "routes" | "secrets" | "readOnly" | "onDenied"> & {
  hosts: readonly AllowedHost[];
  /** Only the run knows it, and nobody else is answered at a port of 127.0.0.1. Absent: who reaches the socket is the run. */
  word?: string | null;
  /** Directory for the one of its socket. */
  within?: string;
  /** The proxy through which an address is reached; null: none. Absent: as the service's environment says. */
  proxy?: (url: URL) => string | null;
  /** Resolves a name to addresses; absent: by the system. */
  resolve?: (name: string) => Promise<string[]>;
  limits?: Partial<typeof usual>;
};

/** Most connections; time for a head, a name, a connection; longest silence; time to the word at the port. */
const usual = { atOnce: 256, connectMs: 10_000, silentMs: 600_000, wordMs: 2000 };

export type DoorSettings = Required<Omit<DoorOptions, "proxy">> & {
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
 * | the same, but the route does not take it | 403, and told |
 * | any other `/path` | 404 |
 * | CONNECT to a host that a secret names | TLS ends here, and each request goes there with the secret's value |
 * | to one that is only read from | as well, and what does not read is 405 |
 * | CONNECT, `http://host/…`, and the host is in the list | goes there unread |
 * | the same, not in the list, or it leads to an address of this host, link-local or of metadata | 403, and told |
 * | the same, only `*` is in the list, and it leads to an address of a private network | 403, and told |
 * | the name cannot be resolved; the host cannot be reached | 502; 504 after 10 s |
 *
 * Names are resolved here, and the connection goes to the address that was judged: a name that changes meanwhile gains
 * nothing. Redirects are the client's to follow, so each is judged anew. Where the service has a proxy, that resolves names.
 */
export const openDoor = async (options: DoorOptions) => {
  const kept = { keepAlive: true };
  const agents = { "http:": new http.Agent(kept), "https:": new https.Agent(kept) };
  const limits = { ...usual, ...options.limits };
  const { connectMs, atOnce } = limits;
  const set = { agents, limits, proxies: proxyAgents(options.proxy) };
  const usually = { resolve: byTheSystem, word: null, within: tmpdir(), secrets: [], readOnly: [] };
  const settings: DoorSettings = { ...usually, ...options, ...set };
  requireHeaderValues(settings.secrets);
  const isEnding = settings.secrets.length + settings.readOnly.length > 0;
  const authority = isEnding ? await createAuthority() : null;
  const directory = await mkdtemp(join(settings.within, "door-"));
  const socket = join(directory, "s");
  if (socket.length > 107) throw new Error(`${socket} is too long for a socket: set a shorter TMPDIR`);
  const clients = new Set<Duplex>();
  const busy = new WeakSet<Duplex>();
  const ended = new WeakMap<Duplex, Rule & { how: Way }>();
  const word = createWord(settings.word, limits);
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
    if (!word.isSaid(asked)) return refuse(answer, stranger);
    // No program asks for more before the first answer: it could hold any number of connections to a host.
    if (busy.has(client)) return void client.destroy();
    busy.add(client);
    answer.once("close", () => busy.delete(client));
    const path = ownPath.exec(url)?.[1];
    const inside = ended.get(client);
    counted(async () => {
      const target =
        inside !== undefined
          ? toEnded(settings, endedRequest(asked, inside), inside.how)
          : path === undefined
            ? await toHost(settings, asked)
            : toRoute(settings, asked, path);
      await pass(asked, answer, target, limits);
    }).catch((error: unknown) => refuse(answer, error));
  });
  server.maxConnections = atOnce;
  server.on("connection", (client) => clients.add(client.once("close", () => clients.delete(client))));
  server.on("connect", (asked, client, head) => {
    client.on("error", () => client.destroy());
    if (!word.isSaid(asked)) return say(client, stranger);
    if (ended.has(client)) return say(client, new Refusal(400, "Ask for a path"));
    if (ownAuthority.test(asked.url ?? "")) {
      client.write(established);
      client.unshift(head);
      return void server.emit("connection", client);
    }
    counted(async () => {
      const target = targetOf(asked);
      const rule = ruleFor(settings, target);
      if (authority === null || rule === null) return connected(client, head, await tunnel(settings, target));
      const how = await judged(settings, target);
      const context = await authority.contextFor(target.name);
      if (client.destroyed) return;
      endTls(client, head, { context, connectMs }, (plain) => {
        word.admit(plain);
        ended.set(plain, { ...rule, how });
        server.emit("connection", plain);
      });
    }).catch((error: unknown) => say(client, refusalOf(error)));
  });
  server.on("clientError", (_error, client) => say(client, new Refusal(400, "This is no whole request")));
  await once(server.listen(socket), "listening");
  await chmod(socket, 0o600);
  const listener = settings.word === null ? null : await word.listen(server);
  return {
    /** Path of the socket. Only the service's user can reach it. */
    socket,
    /** Of the authority that its client has to trust for hosts whose TLS ends here, PEM; null: there are none. */
    certificate: authority?.certificate ?? null,
    /** Of 127.0.0.1; null: it has none. */
    port: listener === null ? null : (listener.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async (): Promise<void> => {
      listener?.close();
      const closed = new Promise((resolve) => server.close(resolve));
      for (const client of clients) client.destroy();
      for (const agent of [...Object.values(agents), settings.proxies]) agent.destroy();
      await closed;
      await rm(directory, { recursive: true, force: true });
    },
  };
};

export type Door = Awaited<ReturnType<typeof openDoor>>;

const established = "HTTP/1.1 200 Connection established\r\n\r\n";

/** Two sides of a tunnel, of which nothing is read. */
const connected = (client: Duplex, head: Buffer, host: Socket): void => {
  if (client.destroyed) return void host.destroy();
  client.write(established);
  if (head.length > 0) host.write(head);
  client.pipe(host).pipe(client);
  client.once("close", () => host.destroy());
  host.once("close", () => client.destroy());
  host.on("error", () => host.destroy());
};

/** Calls with what comes out of TLS once its handshake is over; a client that does not finish it is let go. */
const endTls = (
  client: Duplex,
  head: Buffer,
  { context, connectMs }: { context: SecureContext; connectMs: number },
  onPlain: (plain: TLSSocket) => void,
): void => {
  client.write(established);
  client.unshift(head);
  const plain = new TLSSocket(client, {
    isServer: true,
    secureContext: context,
    ALPNProtocols: ["http/1.1"],
  });
  const late = setTimeout(() => client.destroy(), connectMs);
  client.once("close", () => clearTimeout(late));
  plain.on("error", () => plain.destroy()).once("close", () => client.destroy());
  plain.once("secure", () => {
    clearTimeout(late);
    onPlain(plain);
  });
};

/** Paths of routes, also behind a name that no host can have. Clients of a proxy want one; some ask for it by CONNECT. */
const ownPath = /^(?:http:\/\/[a-z]+\.invalid(?::80)?)?(\/.*)$/is;
const ownAuthority = /^[a-z]+\.invalid:80$/i;

type Target = {
  url: URL;
  headers: Record<string, string | string[]>;
  /** How it is reached: a route by connections that are kept, a host at the addresses that were judged. */
  how: { agent: http.Agent | false; lookup?: LookupFunction | undefined } & RequestOptions;
  /** What the answer's headers may not tell; absent: nothing. */
  secrets?: readonly AgentSecret[];
  /** Reads the answer. Absent: nothing does. */
  meter?: Meter | undefined;
};

type Way = { agent: ProxyAgent; lookup?: never } | { agent: false; lookup?: LookupFunction };

const toEnded = (
  { agents }: DoorSettings,
  { path, ...request }: ReturnType<typeof endedRequest>,
  { agent, lookup }: Way,
): Target => ({
  ...request,
  // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
  how: { path, lookup, agent: agent || (agents["https:"] ?? false), rejectUnauthorized: true },
});

const toHost = async (settings: DoorSettings, asked: IncomingMessage): Promise<Target> => {
  const url = URL.canParse(asked.url ?? "") ? new URL(asked.url ?? "") : null;
  if (url?.protocol !== "http:" || url.username !== "" || url.password !== "")
    throw new Refusal(400, "Ask for http://host/path, or CONNECT host:port");
  const name = url.hostname.replace(/^\[|\]$/g, "");
  const target = { name, port: Number(url.port || 80) };
  requireReading(asked, { secrets: [], reads: isReadOnly(settings.readOnly, target) });
  const how = await judged(settings, target);
  return { url, headers: { ...endToEnd(asked), host: url.host }, how };
};

/** By the addresses that were judged, whatever the name says by then, or by the proxy that resolves it. @throws Refusal */
const judged = async (
  { hosts, onDenied, resolve, limits, proxies }: DoorSettings,
  { name, port }: { name: string; port: number },
): Promise<Way> => {
  // It is told to a user, in a command to be copied.
  if (!/^[a-z0-9:][a-z0-9._:-]{0,254}$/i.test(name)) throw new Refusal(400, "This is no name of a host");
  const shown = `${bracketed(name)}:${port}`;
  const deny = (why: string): never => {
    onDenied(shown);
    throw new Refusal(403, `${shown} ${why}`);
  };
  const how = judge(hosts, { name, port });
  if (how === "refused") deny("is not in the list of hosts that this run may reach");
  const addresses = await addressesOf(name, resolve, limits.connectMs);
  const good = addresses?.filter((each) => mayLeadTo(how, each));
  if (good?.length === 0 && addresses?.length !== 0)
    deny(
      addresses?.some((each) => mayLeadTo("allowed", each))
        ? "leads to a private network: the profile or the operator must name the host"
        : "leads to an address that no agent may reach",
    );
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

const targetOf = ({ url = "" }: IncomingMessage): HostAndPort => {
  const [, bracketed, plain, port] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+)):(\d{1,5})$/i.exec(url) ?? [];
  const target = { name: (bracketed ?? plain ?? "").toLowerCase(), port: Number(port) };
  if (target.name === "" || !isPort(target.port)) throw new Refusal(400, "CONNECT takes host:port");
  return target;
};

const tunnel = async (settings: DoorSettings, target: HostAndPort): Promise<Socket> => {
  const { agent, lookup } = await judged(settings, target);
  const { connectMs, silentMs } = settings.limits;
  if (agent !== false) return await connectThrough(agent, target, connectMs);
  const socket = connect({ host: target.name, port: target.port, noDelay: true, ...(lookup && { lookup }) });
  socket.setTimeout(connectMs, () =>
    socket.destroy(new Refusal(504, `${target.name}:${target.port} does not answer`)),
  );
  await once(socket, "connect");
  socket.setTimeout(silentMs, () => socket.destroy());
  return socket;
};

/** Passes the request on, and the answer back piece by piece. */
const pass = async (
  asked: IncomingMessage,
  answer: ServerResponse,
  { url, headers, how, secrets = [], meter }: Target,
  { connectMs, silentMs }: typeof usual,
): Promise<void> => {
  const isTls = url.protocol === "https:";
  const { method, headers: given, socket } = asked;
  if (socket.destroyed) return;
  const chunked = given["transfer-encoding"] !== undefined && { "transfer-encoding": "chunked" };
  const sent = (isTls ? https : http).request(url, { method, headers: { ...headers, ...chunked }, ...how });
  const late = (): void => void sent.destroy(new Refusal(504, `${url.host} does not answer`));
  const timer = setTimeout(late, connectMs);
  const inTime = (): void => clearTimeout(timer);
  sent.once("socket", (host) => {
    if (host.connecting) host.once(isTls ? "secureConnect" : "connect", inTime);
    else inTime();
  });
  sent.setTimeout(silentMs, late);
  sent.once("close", inTime);
  let isLeft = false;
  answer.once("close", () => {
    isLeft = true;
    // What the model has been asked is paid for: its answer is awaited for its tokens.
    if (meter === undefined || !asked.complete) sent.destroy();
  });
  pipeline(asked, sent, () => undefined);
  const got = await new Promise<IncomingMessage>((resolve, reject) => {
    sent.once("response", resolve);
    sent.on("error", reject);
    // One that changes the protocol ends without either.
    sent.once("close", () => reject(new Error(`${url.host} gave no answer`)));
  });
  if (meter !== undefined) readAnswer(got, meter);
  if (isLeft) return void got.once("data", () => setTimeout(() => got.destroy(), afterLeaveMs));
  answer.writeHead(got.statusCode ?? 502, takenOut(endToEnd(got), secrets));
  answer.flushHeaders();
  pipeline(got, answer, () => undefined);
};

/** How much of an answer that nobody reads any more is read for its tokens. */
const afterLeaveMs = 500;
