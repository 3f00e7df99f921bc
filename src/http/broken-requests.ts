import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { statusOf } from "../contract/errors.ts";
import { failureBody } from "./reply.ts";

/** Answers what is not HTTP, too long or too slow like everything else: with a status and a JSON sentence. */
export const refuseBrokenRequests = (server: Server): void => {
  const answering = new WeakMap<object, ServerResponse>();
  server.on("request", (request, response) => answering.set(request.socket, response));
  server.on("clientError", (error: Error & { code?: string }, socket: Socket) => {
    // An answer that has begun cannot be followed by another one, nor one that came before the end of its request.
    const begun = answering.get(socket);
    if (begun?.writableEnded === true && !begun.req.complete) socket.destroySoon();
    else if (!socket.writable || (begun?.headersSent === true && !begun.writableFinished))
      socket.destroy(error);
    else refuse(socket, faults[error.code ?? ""] ?? malformed);
  });
  server.on("connect", (_request, socket: Socket) => {
    // The server has let go of it, and would wait for it when it closes.
    socket.on("error", () => undefined);
    refuse(socket, connect);
    socket.destroySoon();
  });
  server.on("checkExpectation", ({ socket }) => refuse(socket, expectation));
};

/** Whether it was answered here: a request that is HTTP but for a header that it must have. */
export const refuseWithoutHost = ({ headers, httpVersion, socket }: IncomingMessage): boolean => {
  if (headers.host !== undefined || httpVersion === "1.0") return false;
  refuse(socket, withoutHost);
  return true;
};

const refuse = (socket: Socket, { status, reason, message, allow }: Fault): void => {
  const body = JSON.stringify(
    failureBody(allow === undefined ? "invalid_request" : "method_not_allowed", message),
  );
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\n${allow === undefined ? "" : `Allow: ${allow}\r\n`}` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
};

type Fault = { status: number; reason: string; message: string; allow?: string };

const malformed: Fault = {
  status: statusOf.invalid_request,
  reason: "Bad Request",
  message: "The request is not valid HTTP/1.1",
};

const withoutHost: Fault = { ...malformed, message: "The request has no Host header; HTTP/1.1 asks for one" };

const expectation: Fault = {
  status: 417,
  reason: "Expectation Failed",
  message: "Expect can only be 100-continue",
};

const connect: Fault = {
  status: statusOf.method_not_allowed,
  reason: "Method Not Allowed",
  message: "CONNECT is not answered: the service is no proxy",
  allow: "GET, POST, DELETE",
};

const faults: Record<string, Fault> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    reason: "Request Header Fields Too Large",
    message: "The headers have more than 16 KiB; send less",
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    reason: "Request Timeout",
    message: "The request took too long to arrive",
  },
};
