import { randomUUID } from "node:crypto";
import { parseJSONRPCMessage, type JSONRPCMessage } from "@modelcontextprotocol/server";
import { ServiceError } from "../../contract/errors.ts";
import { readJson } from "../../http/body.ts";
import type { Reply } from "../../http/reply.ts";
import type { Call, Route } from "../../http/route.ts";
import type { McpRoutesOptions } from "../options.ts";
import { maxBatch, notMessages, rpcFailure, shuttingDown } from "../rpc-failure.ts";
import { openSession, type Session } from "./session.ts";

/**
 * `/sse` and `/messages`: the HTTP+SSE transport of 2024-11-05, for clients that know no other. A session is an open
 * event stream with a server of its own: answers come over it, requests are posted. It ends with its connection.
 */
export const sseRoutes = (options: McpRoutesOptions): Route[] => {
  const { newServer, log, closing, pingEveryMs = 15_000, maxSessions = 1000 } = options;
  const sessions = new Map<string, Session>();
  closing.addEventListener("abort", () => sessions.forEach((session) => session.end()), { once: true });

  const open = async (call: Call): Promise<Reply> => {
    if (closing.aborted) throw shuttingDown();
    // A reply to HEAD is never read: no session may be opened for it.
    if (call.request.method === "HEAD") return streamed(null);
    if (sessions.size >= maxSessions) {
      throw new ServiceError(
        "queue_full",
        `${maxSessions} clients are connected to /sse, which is as many as may be; use /mcp, or try again later`,
      );
    }
    const id = randomUUID();
    const session = await openSession({
      server: newServer({
        principal: call.principal,
        requestId: call.requestId,
        note: (line) => log.info({ ...line, request_id: call.requestId }, "tool call"),
      }),
      principal: call.principal,
      endpoint: endpointOf(id, call.request.url),
      gone: call.request.signal,
      cut: call.cut,
      pingEveryMs,
      onEnd: (why) => {
        sessions.delete(id);
        log.debug({ request_id: call.requestId, why }, "session on /sse ended");
      },
      register: (opened) => sessions.set(id, opened),
      log,
    });
    return streamed(session.stream);
  };

  const receive = async (call: Call): Promise<Reply> => {
    const id = new URL(call.request.url).searchParams.get("sessionId") ?? "";
    const session = sessions.get(id);
    // Somebody else's session is as unknown as one that never was.
    if (session === undefined || session.principal !== call.principal) {
      throw new ServiceError("not_found", "There is no such session; open a new one with GET /sse");
    }
    const read = await messagesOf(call.request);
    if ("refused" in read) return read.refused;
    for (const message of read.messages) session.receive(message);
    return { status: 202, headers: { "content-type": "text/plain" }, body: "Accepted" };
  };

  return [
    { method: "get", path: "/sse", handle: open },
    { method: "post", path: "/messages", handle: receive },
  ];
};

const streamed = (body: Reply["body"]): Reply => ({
  status: 200,
  headers: {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
  },
  body,
});

/** Where the client is to post to. A key that came in the address is in this address too: the client has no other place for it. */
const endpointOf = (id: string, url: string): string => {
  const key = new URL(url).searchParams.get("api_key");
  return `/messages?sessionId=${id}${key === null ? "" : `&api_key=${encodeURIComponent(key)}`}`;
};

const messagesOf = async (request: Request): Promise<{ messages: JSONRPCMessage[] } | { refused: Reply }> => {
  try {
    const body = await readJson(request);
    const bodies = Array.isArray(body) ? body : [body];
    if (bodies.length === 0 || bodies.length > maxBatch) throw new RangeError("batch");
    return { messages: bodies.map((each: unknown) => parseJSONRPCMessage(each)) };
  } catch (error) {
    const refused = rpcFailure(error);
    if (refused !== null) return { refused };
    if (error instanceof ServiceError) throw error;
    return { refused: notMessages() };
  }
};
