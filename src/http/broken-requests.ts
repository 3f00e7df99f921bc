import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { statusOf } from "../contract/errors.ts";

/** Answers what is not HTTP, too long or too slow like everything else: with a status and a JSON sentence. */
export const refuseBrokenRequests = (server: Server): void => {
  const answering = new WeakMap<object, ServerResponse>();
  server.on("request", (request, response) => answering.set(request.socket, response));
  server.on("clientError", (error: Error & { code?: string }, socket: Socket) => {
    // An answer that has begun cannot be followed by another one.
    const begun = answering.get(socket);
    if (!socket.writable || (begun?.headersSent === true && !begun.writableFinished))
      return void socket.destroy(error);
    const { status, reason, message } = faults[error.code ?? ""] ?? malformed;
    const body = JSON.stringify({ success: false, error: message, code: "invalid_request" });
    socket.end(
      `HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
  });
};

type Fault = { status: number; reason: string; message: string };

const malformed: Fault = {
  status: statusOf.invalid_request,
  reason: "Bad Request",
  message: "The request is not valid HTTP/1.1",
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
