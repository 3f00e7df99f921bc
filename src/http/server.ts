import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { getRequestListener } from "@hono/node-server";
import type { Hono } from "hono";
import { statusOf } from "../contract/errors.ts";
import { failure, failureBody } from "./reply.ts";

type Options = {
  host: string;
  /** 0: a free one. */
  port: number;
  timeouts?: Timeouts;
};

/** In milliseconds. They bound how long a request may take to arrive; an answer may take as long as it does. */
type Timeouts = { headers: number; request: number; keepAlive: number };

// Keep-alive outlasts the 60 s that load balancers keep an idle connection, so that it is they who close it.
const defaultTimeouts: Timeouts = { headers: 10_000, request: 60_000, keepAlive: 65_000 };

export type Listening = {
  /** Where it can be asked, the chosen port included. */
  url: string;
  port: number;
  /** Takes no more connections, ends idle ones, and gives the others `graceMs` to finish before they are cut. */
  close: (graceMs: number) => Promise<void>;
};

/** Serves `app`. Rejects with a sentence when it cannot listen there. */
export const listen = async (app: Pick<Hono, "fetch">, options: Options): Promise<Listening> => {
  const { host, port, timeouts = defaultTimeouts } = options;
  // Never rejects: what goes wrong in it becomes an answer, or ends the connection.
  const answer = listener(app, host);
  const server = createServer(
    {
      headersTimeout: timeouts.headers,
      requestTimeout: timeouts.request,
      keepAliveTimeout: timeouts.keepAlive,
      requireHostHeader: false,
      // A caller that waits for a job sends nothing for an hour: only the probes of TCP tell that it is gone.
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
      connectionsCheckingInterval: Math.max(50, Math.min(timeouts.headers, timeouts.request) / 4),
    },
    (incoming, outgoing) => void (refuseWithoutHost(incoming) || answer(incoming, outgoing)),
  );
  refuseBrokenRequests(server);
  await listening(server, { host, port });
  const { port: actual } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${actual}`,
    port: actual,
    close: (graceMs) => close(server, graceMs),
  };
};

const listener = (app: Pick<Hono, "fetch">, host: string) =>
  getRequestListener(app.fetch, {
    hostname: host,
    // Only a request whose address or Host cannot be made a URL gets here; every other error is answered by the app.
    errorHandler: () => {
      const { status, headers, body } = failure(
        "invalid_request",
        "The address or the Host header of the request is not valid",
      );
      return new Response(body, { status, headers });
    },
  });

/** Answers what is not HTTP, too long or too slow like everything else: with a status and a JSON sentence. */
const refuseBrokenRequests = (server: Server): void => {
  const answering = new WeakMap<object, ServerResponse>();
  server.on("request", (request, response) => answering.set(request.socket, response));
  server.on("clientError", (error: Error & { code?: string }, socket: Socket) => {
    // An answer that has begun cannot be followed by another one, nor one that came before the end of its request.
    const begun = answering.get(socket);
    if (begun?.writableEnded === true && !begun.req.complete) socket.destroySoon();
    else if (!socket.writable || (begun?.headersSent === true && !begun.writableFinished))
      socket.destroy(error);
    else refuse(socket, ...(faults[error.code ?? ""] ?? malformed));
  });
  server.on("connect", (_request, socket: Socket) => {
    // The server has let go of it, and would wait for it when it closes.
    socket.on("error", () => undefined);
    refuse(socket, 405, "CONNECT is not answered: the service is no proxy");
    socket.destroySoon();
  });
  server.on("checkExpectation", ({ socket }) => refuse(socket, 417, "Expect can only be 100-continue"));
};

/** Whether it was answered here: a request that is HTTP but for a header that it must have. */
const refuseWithoutHost = ({ headers, httpVersion, socket }: IncomingMessage): boolean => {
  if (headers.host !== undefined || httpVersion === "1.0") return false;
  refuse(socket, 400, "The request has no Host header; HTTP/1.1 asks for one");
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

const listening = async (server: Server, { host, port }: { host: string; port: number }): Promise<void> => {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen({ host: host.replace(/^\[(.*)\]$/, "$1"), port }, resolve);
  try {
    await promise;
  } catch (cause) {
    throw new Error(sentence(cause, `${host}:${port}`), { cause });
  } finally {
    server.off("error", reject);
  }
};

const sentence = (cause: unknown, place: string): string => {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  switch (code) {
    case "EADDRINUSE":
      return `Cannot listen on ${place}: the port is taken. Stop what listens there, or choose another port with --port or SERVICE_PORT (0: a free one)`;
    case "EACCES":
      return `Cannot listen on ${place}: not permitted. Choose a port from 1024 on with --port or SERVICE_PORT`;
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return `Cannot listen on ${place}: this machine has no such address. Choose one with --host or SERVICE_HOST`;
    default:
      return `Cannot listen on ${place}: ${cause instanceof Error ? cause.message : String(cause)}`;
  }
};

const close = async (server: Server, graceMs: number): Promise<void> => {
  const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
  const deadline = performance.now() + graceMs;
  let open = true;
  const done = closed.then(() => void (open = false));
  while (open && performance.now() < deadline) {
    // A connection becomes idle when its last answer is out, and would then be kept alive.
    server.closeIdleConnections();
    await Promise.race([done, delay(Math.min(50, graceMs))]);
  }
  server.closeAllConnections();
  await closed;
};
