import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { getRequestListener } from "@hono/node-server";
import type { Hono } from "hono";
import { refuseBrokenRequests, refuseWithoutHost } from "./broken-requests.ts";
import { failure } from "./reply.ts";

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
