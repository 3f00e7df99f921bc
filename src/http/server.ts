import { once } from "node:events";
import { rmSync } from "node:fs";
import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { getRequestListener } from "@hono/node-server";
import type { Hono } from "hono";
import { statusOf } from "../contract/errors.ts";
import { failureBody } from "./route.ts";

type Options = {
  host: string;
  /** 0: any free port. */
  port: number;
  timeouts?: Timeouts;
  /** Where the operator sets host and port. */
  setBy?: { host: string; port: string };
};

/** How long a request may take to arrive and a connection may be idle, ms. Answers have no limit. */
type Timeouts = { headers: number; request: number; keepAlive: number };

const setByServe = { host: "--host or SERVICE_HOST", port: "--port or SERVICE_PORT" };

// Load balancers keep idle connections for 60 s. Keep-alive is longer, so that they close them and not the service.
const defaultTimeouts: Timeouts = { headers: 10_000, request: 60_000, keepAlive: 65_000 };

export type Listening = {
  url: string;
  port: number;
  /** Accepts no more connections, closes idle ones, and closes the others after `graceMs` at the latest. */
  close: (graceMs: number) => Promise<void>;
};

/** Serves `app`. @throws Error that says why it cannot listen and what to do */
export const listen = async (app: Pick<Hono, "fetch">, options: Options): Promise<Listening> => {
  const { host, port, timeouts = defaultTimeouts, setBy = setByServe } = options;
  const server = serverOf(app, host, timeouts);
  server.listen({ host: host.replace(/^\[(.*)\]$/, "$1"), port });
  await once(server, "listening").catch((cause: unknown) => {
    throw new Error(listenFailure(cause, `${host}:${port}`, setBy), { cause });
  });
  const { port: actual } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${actual}`,
    port: actual,
    close: (graceMs) => close(server, graceMs),
  };
};

/** Serves `app` on a Unix socket that only this user may open. What is left of an earlier one is removed. */
export const listenOnSocket = async (
  app: Pick<Hono, "fetch">,
  path: string,
): Promise<Pick<Listening, "close">> => {
  const server = serverOf(app, "127.0.0.1", defaultTimeouts);
  rmSync(path, { force: true });
  const before = process.umask(0o177);
  const opened = once(server, "listening");
  server.listen(path);
  process.umask(before);
  await opened;
  return { close: (graceMs) => close(server, graceMs) };
};

const serverOf = (app: Pick<Hono, "fetch">, host: string, timeouts: Timeouts): Server => {
  const answer = listener(app, host);
  const server = createServer(
    {
      headersTimeout: timeouts.headers,
      requestTimeout: timeouts.request,
      keepAliveTimeout: timeouts.keepAlive,
      requireHostHeader: false,
      // A caller that waits for a job sends nothing for an hour. TCP keep-alive notices that it has disconnected.
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
      // A check wakes a service at rest.
      connectionsCheckingInterval: Math.max(50, Math.min(3 * timeouts.headers, timeouts.request / 2)),
    },
    (incoming, outgoing) => void (refuseWithoutHost(incoming) || answer(incoming, outgoing)),
  );
  refuseBrokenRequests(server);
  return server;
};

const listener = (app: Pick<Hono, "fetch">, host: string) =>
  getRequestListener(app.fetch, {
    hostname: host,
    // Reached only when address and Host do not make a URL. The app answers all other errors.
    errorHandler: () =>
      Response.json(
        failureBody("invalid_request", "The address or the Host header of the request is not valid"),
        { status: 400 },
      ),
  });

/** Answers requests that are malformed, too long or too slow with a status and a JSON failure. */
const refuseBrokenRequests = (server: Server): void => {
  const answering = new WeakMap<object, ServerResponse>();
  server.on("request", (request, response) => answering.set(request.socket, response));
  server.on("clientError", (error: Error & { code?: string }, socket: Socket) => {
    // A second answer must not follow one that has begun, or one that was sent before the end of its request.
    const current = answering.get(socket);
    if (current?.writableEnded === true && !current.req.complete) socket.destroySoon();
    else if (!socket.writable || (current?.headersSent === true && !current.writableFinished))
      socket.destroy(error);
    else refuse(socket, ...(faults[error.code ?? ""] ?? malformed));
  });
  server.on("connect", (_request, socket: Socket) => {
    // The server no longer handles the socket's errors, but waits for its end when it closes.
    socket.on("error", () => undefined);
    refuse(socket, 405, "CONNECT is not answered: the service is no proxy");
    socket.destroySoon();
  });
  server.on("checkExpectation", ({ socket }) => refuse(socket, 417, "Expect can only be 100-continue"));
};

/** Refuses a request without the Host header that HTTP/1.1 requires. Returns whether it did. */
const refuseWithoutHost = ({ headers, httpVersion, socket }: IncomingMessage): boolean => {
  if (headers.host !== undefined || httpVersion === "1.0") return false;
  refuse(socket, 400, "The request has no Host header; HTTP/1.1 requires one");
  return true;
};

const refuse = (socket: Socket, status: number, message: string): void => {
  const isMethod = status === statusOf.method_not_allowed;
  const body = JSON.stringify(failureBody(isMethod ? "method_not_allowed" : "invalid_request", message));
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n${isMethod ? "Allow: GET, POST, DELETE\r\n" : ""}` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
};

type Fault = [status: number, message: string];

const malformed: Fault = [400, "The request is not valid HTTP/1.1"];

const faults: Record<string, Fault> = {
  HPE_HEADER_OVERFLOW: [431, "The headers have more than 16 KiB; send less"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "The request took too long to arrive"],
};

const listenFailure = (cause: unknown, address: string, setBy: typeof setByServe): string => {
  switch ((cause as NodeJS.ErrnoException).code ?? "") {
    case "EADDRINUSE":
      return `Cannot listen on ${address}: the port is taken. Stop what listens there, or choose another port with ${setBy.port} (0: a free one)`;
    case "EACCES":
      return `Cannot listen on ${address}: not permitted. Choose a port from 1024 on with ${setBy.port}`;
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return `Cannot listen on ${address}: this machine has no such address. Choose one with ${setBy.host}`;
    default:
      return `Cannot listen on ${address}: ${(cause as Error).message}`;
  }
};

const close = async (server: Server, graceMs: number): Promise<void> => {
  const closed = once(server, "close");
  // Those with a request under way end soon after its answer, and are not kept for a next one.
  server.keepAliveTimeout = 1;
  server.close();
  const cut = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearTimeout(cut);
};
