import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { JobEvent } from "../../src/contract/event.ts";
import type { Job } from "../../src/contract/job.ts";
import { afterFile } from "../cleanup.ts";
import { lastingPort } from "../lasting-port.ts";
import { until } from "../until.ts";

/** What the stub was asked. */
type Request = { method: string; url: string; headers: IncomingMessage["headers"]; body: string };

type Answer = (request: Request, response: ServerResponse) => void;

export type Stub = {
  port: number;
  requests: Request[];
  /** As a restart would: every connection is cut, nothing listens. */
  stop: () => Promise<void>;
  /** Listens again, on the same port. */
  start: () => Promise<void>;
};

/** A service that gives scripted answers, `METHOD /path` → answer; for what the real one cannot be made to do on time. */
export const stubService = async (
  answers: Record<string, Answer>,
  otherwise: Answer = json(404, { success: false, error: "Nothing is there", code: "not_found" }),
): Promise<Stub> => {
  const requests: Request[] = [];
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const asked = { method, url, headers, body: Buffer.concat(pieces).toString() };
      requests.push(asked);
      const answer = answers[`${method} ${url.split("?")[0]}`] ?? otherwise;
      answer(asked, response);
    });
  };
  let server: Server;
  const port = await lastingPort();
  const listen = async (): Promise<true> => {
    server = createServer(serve);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once("error", reject).listen(port, "127.0.0.1", resolve);
    await promise;
    return true;
  };
  // A process that another test is just starting may hold a copy of the old socket for a moment.
  const start = async (): Promise<void> => void (await until(listen));
  const stop = async (): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    server.close(() => resolve());
    server.closeAllConnections();
    await promise;
  };
  await start();
  afterFile(stop);
  return { port, requests, stop, start };
};

export const json =
  (status: number, body: unknown): Answer =>
  (_request, response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  };

/** The events as a stream, then `end` with the final job, or an open connection when there is none. */
export const stream =
  (events: () => JobEvent[], final: () => Job | null): Answer =>
  (request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    const after = Number(request.headers["last-event-id"] ?? 0);
    for (const event of events()) {
      if (event.seq > after) response.write(`id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`);
    }
    const job = final();
    if (job !== null) response.end(`event: end\ndata: ${JSON.stringify({ success: true, job })}\n\n`);
  };
