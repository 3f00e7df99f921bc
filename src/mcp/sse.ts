import { randomUUID } from "node:crypto";
import {
  isJSONRPCRequest,
  parseJSONRPCMessage,
  type JSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { ServiceError } from "../contract/errors.ts";
import { readJson } from "../http/body.ts";
import { streamed } from "../http/event-stream.ts";
import type { Call, Reply } from "../http/route.ts";
import { encodeEvent, ping } from "../lib/sse.ts";
import { lenientMessage } from "./message.ts";
import type { McpOptions } from "./routes.ts";
import { paramsFault } from "./params-fault.ts";
import { maxBatch, notMessages, shuttingDown } from "./rpc-failure.ts";
import { checkScopes } from "./server.ts";

/**
 * `/sse` and `/messages`: the HTTP+SSE transport of 2024-11-05, for old clients. A session is an open event stream with an
 * MCP server of its own, and ends with it. The client posts requests; the answers come over the stream.
 */
export const sseHandlers = (options: McpOptions) => {
  const { newServer, operations = {}, log, closing, pingEveryMs = 15_000, maxSessions = 1000 } = options;
  const { under = "" } = options;
  const sessions = new Map<string, Session>();
  closing.addEventListener("abort", () => sessions.forEach(({ end }) => end("closing")), { once: true });

  const open = async (call: Call): Promise<Reply> => {
    if (closing.aborted) throw shuttingDown();
    // Nobody reads the body of a reply to HEAD.
    if (call.request.method === "HEAD") return streamed(null, noCache);
    if (sessions.size >= maxSessions)
      throw new ServiceError(
        "queue_full",
        `${maxSessions} clients are connected to /sse, which is the limit; use /mcp, or try again later`,
      );
    const id = randomUUID();
    const { principal, scopes, requestId } = call;
    const note = (line: object): void => log.info({ ...line, request_id: requestId }, "tool call");
    const server = newServer({ principal, scopes, requestId, note });
    const onEnd = (why: string): void => {
      sessions.delete(id);
      log.debug({ request_id: requestId, why }, "session on /sse ended");
      server.close().catch((error: unknown) => log.warn({ err: error }, "a session on /sse did not close"));
    };
    const session = createSession(call, {
      endpoint: under + endpointOf(id, call.request.url),
      pingEveryMs,
      onEnd,
    });
    sessions.set(id, session);
    await server.connect(session.transport);
    return streamed(session.stream, noCache);
  };

  const receive = async (call: Call): Promise<Reply> => {
    const id = new URL(call.request.url).searchParams.get("sessionId") ?? "";
    const session = sessions.get(id);
    // A caller cannot find out about the sessions of other callers.
    if (session === undefined || session.principal !== call.principal)
      throw new ServiceError("not_found", "There is no such session; open a new one with GET /sse");
    const messages = messagesIn(await readJson(call.request));
    if (messages === null) return notMessages();
    checkScopes(messages, operations, call.scopes);
    for (const message of messages) session.receive(message);
    return { status: 202, headers: { "content-type": "text/plain" }, body: "Accepted" };
  };

  return { open, receive };
};

const noCache = { "cache-control": "no-cache, no-transform" };

/** Where the client posts to. A client that gave its key in the address cannot send it in another way: it is repeated here. */
const endpointOf = (id: string, url: string): string => {
  const key = new URL(url).searchParams.get("api_key");
  return `/messages?sessionId=${id}${key === null ? "" : `&api_key=${encodeURIComponent(key)}`}`;
};

/** Null: it is neither a message nor a batch of the allowed size. */
const messagesIn = (body: unknown): JSONRPCMessage[] | null => {
  const bodies: unknown[] = Array.isArray(body) ? body : [body];
  if (bodies.length === 0 || bodies.length > maxBatch) return null;
  try {
    return bodies.map((message) => parseJSONRPCMessage(lenientMessage(message)));
  } catch {
    return null;
  }
};

type Session = {
  principal: string;
  stream: ReadableStream<Uint8Array>;
  transport: Transport;
  receive: (message: JSONRPCMessage) => void;
  end: (why: string) => void;
};

/** A client that has this much unread is disconnected: it must not fill the memory. */
const maxUnreadBytes = 4 * 1024 * 1024;

type SessionOptions = {
  endpoint: string;
  pingEveryMs: number;
  /** Called once. */
  onEnd: (why: string) => void;
};

const createSession = (
  { request, principal, disconnect }: Call,
  { endpoint, pingEveryMs, onEnd }: SessionOptions,
): Session => {
  const encoder = new TextEncoder();
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  const stream = new ReadableStream<Uint8Array>(
    {
      start: (given) => void (controller = given),
      cancel: () => end("gone"),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: maxUnreadBytes }),
  );

  const end = (why: string): void => {
    if (controller === null) return;
    const ended = controller;
    controller = null;
    clearInterval(pinging);
    request.signal.removeEventListener("abort", onDisconnect);
    onEnd(why);
    // Closing a stream still sends what is in it, which a stalled client does not read.
    if (why === "stalled") disconnect();
    else if (why !== "gone") ended.close();
  };
  const onDisconnect = (): void => end("gone");
  request.signal.addEventListener("abort", onDisconnect, { once: true });

  const write = (text: string): void => {
    if (controller === null) return;
    if ((controller.desiredSize ?? 0) <= 0) end("stalled");
    else controller.enqueue(encoder.encode(text));
  };
  const send = (message: JSONRPCMessage): void =>
    write(encodeEvent({ event: "message", data: JSON.stringify(message) }));
  const pinging = setInterval(() => write(ping), pingEveryMs);
  pinging.unref();

  const transport: Transport = {
    start: async () => undefined,
    send: async (message) => send(message),
    close: async () => {
      const { onclose } = transport;
      // The server closes its transport, and the end of the session closes its server: `onclose` is called once.
      delete transport.onclose;
      end("closed");
      onclose?.();
    },
  };
  write(encodeEvent({ event: "endpoint", data: endpoint }));
  return {
    principal,
    stream,
    transport,
    receive: (message) => {
      const fault = isJSONRPCRequest(message) ? paramsFault(message) : null;
      if (fault === null) transport.onmessage?.(message);
      else send(fault);
    },
    end,
  };
};
