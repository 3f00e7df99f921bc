import { isJSONRPCRequest, type JSONRPCMessage, type McpServer } from "@modelcontextprotocol/server";
import { encodeEvent, ping } from "../../lib/sse.ts";
import type { Log } from "../../lib/log.ts";
import { paramsFault } from "../params-fault.ts";
import { createSseTransport } from "./transport.ts";

/** What may wait for a reader before it is cut off: a reader that has stalled must not fill the memory. */
const maxWaitingBytes = 4 * 1024 * 1024;

export type Session = {
  stream: ReadableStream<Uint8Array>;
  /** Whose session it is. */
  principal: string;
  receive: (message: JSONRPCMessage) => void;
  end: () => void;
};

type Opening = {
  server: McpServer;
  principal: string;
  /** Path and query that the client is told to post to. */
  endpoint: string;
  /** Aborted when the client's connection is gone. */
  gone: AbortSignal;
  /** Cuts the client's connection. */
  cut: () => void;
  pingEveryMs: number;
  register: (session: Session) => void;
  /** Called once, whatever ended it. */
  onEnd: (why: string) => void;
  log: Log;
};

/** Connects a server to a stream of events. Nothing of it is left when the stream has ended, whoever ended it. */
export const openSession = async (opening: Opening): Promise<Session> => {
  const { server, principal, endpoint, gone, cut, pingEveryMs, register, onEnd, log } = opening;
  const encoder = new TextEncoder();
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null;

  const end = (why: string): void => {
    if (controller === null) return;
    const ended = controller;
    controller = null;
    clearInterval(pinging);
    gone.removeEventListener("abort", onGone);
    onEnd(why);
    try {
      // A stream that is closed is sent to its end, for which this reader would have to read.
      if (why === "stalled") cut();
      else if (why !== "gone") ended.close();
    } finally {
      server.close().catch((error: unknown) => log.warn({ err: error }, "a session on /sse did not close"));
    }
  };

  const write = (text: string): void => {
    if (controller === null) return;
    if ((controller.desiredSize ?? 0) <= 0) end("stalled");
    else controller.enqueue(encoder.encode(text));
  };

  const stream = new ReadableStream<Uint8Array>(
    {
      start: (given) => void (controller = given),
      cancel: () => end("gone"),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: maxWaitingBytes }),
  );
  const onGone = (): void => end("gone");
  const pinging = setInterval(() => write(ping), pingEveryMs);
  pinging.unref();
  gone.addEventListener("abort", onGone, { once: true });

  const send = (message: JSONRPCMessage): void =>
    write(encodeEvent({ event: "message", data: JSON.stringify(message) }));
  const transport = createSseTransport({
    send,
    close: () => end("closed"),
  });
  const session: Session = {
    stream,
    principal,
    receive: (message) => {
      const fault = isJSONRPCRequest(message) ? paramsFault(message) : null;
      if (fault === null) transport.onmessage?.(message);
      else send(fault);
    },
    end: () => end("closing"),
  };
  write(encodeEvent({ event: "endpoint", data: endpoint }));
  register(session);
  await server.connect(transport);
  return session;
};
