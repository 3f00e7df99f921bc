import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Log } from "../lib/log.ts";
import { ping } from "../lib/sse.ts";
import type { Call, Reply } from "./route.ts";

/** A reply of server-sent events. `headers` override the defaults. */
export const streamed = (body: Reply["body"], headers: Record<string, string> = {}): Reply => ({
  status: 200,
  headers: {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    ...headers,
  },
  body,
});

export type Following = {
  /** Aborted when the service shuts down: the stream ends, and its reader resumes at another instance. */
  closing: AbortSignal;
  log: Log;
  /** How long the stream may be silent before it sends a ping; default 15 s. */
  pingEveryMs?: number;
};

/** A reply with what `source` has, until it ends, the caller disconnects or the service shuts down. */
export const followed = (
  { request, path }: Call,
  { closing, log, pingEveryMs }: Following,
  source: (signal: AbortSignal) => AsyncIterable<string>,
): Reply => {
  // Nobody reads the body of a reply to HEAD.
  if (request.method === "HEAD") return streamed(null);
  const onFailure = (error: unknown): void => log.error({ err: error, ...path }, "event stream failed");
  return streamed(eventStream(source, { endedBy: [closing, request.signal], pingEveryMs, onFailure }));
};

type Options = {
  /** Each of them ends the stream: the caller has disconnected, the service shuts down. */
  endedBy: readonly AbortSignal[];
  /** How long the stream may be silent before it sends a ping; default 15 s. */
  pingEveryMs?: number | undefined;
  /** Called with what the source threw. The stream just ends, because the status has been sent. */
  onFailure: (error: unknown) => void;
  /** Disconnects a reader that reads nothing for `afterMs`. Absent: a reader may stall. */
  stall?: { afterMs: number; disconnect: () => void } | undefined;
};

/** Writes server-sent events to the connection directly: the layers in between cost most of a piece. Never rejects. */
export type EventBody = (outgoing: ServerResponse) => Promise<void>;

/**
 * The pieces of `source` as a body, with pings. The next one is requested when the reader has taken the last, so a slow
 * reader delays only its own stream. `source` must end when its signal aborts, as it does at the end.
 */
export const eventStream =
  (
    source: (signal: AbortSignal) => AsyncIterable<string | Uint8Array>,
    { endedBy, pingEveryMs = 15_000, onFailure, stall }: Options,
  ): EventBody =>
  async (outgoing) => {
    const { signal, end } = endSignal(endedBy);
    outgoing.once("close", end);
    if (outgoing.destroyed) end();
    const silence = setInterval(() => {
      // A slow reader may still have to read the beginning of an event.
      if (!outgoing.writableNeedDrain && !signal.aborted) outgoing.write(ping);
    }, pingEveryMs);
    try {
      for await (const piece of source(signal)) {
        if (signal.aborted) break;
        if (!outgoing.write(piece)) await drained(outgoing, stall, signal);
        silence.refresh();
      }
    } catch (error) {
      onFailure(error);
    } finally {
      clearInterval(silence);
      end();
      outgoing.off("close", end);
      outgoing.end();
    }
  };

/** Resolves when the reader has taken what was written, or when the signal aborts: it stalls, say. */
const drained = async (outgoing: ServerResponse, stall: Options["stall"], signal: AbortSignal) => {
  const patience = stall && setTimeout(stall.disconnect, stall.afterMs);
  await once(outgoing, "drain", { signal }).catch(() => undefined);
  clearTimeout(patience);
};

/** A signal that follows the others until `end`, and then removes its listeners: the others may outlive the stream. */
const endSignal = (signals: readonly AbortSignal[]) => {
  const own = new AbortController();
  const end = (): void => {
    for (const signal of signals) signal.removeEventListener("abort", end);
    own.abort();
  };
  for (const signal of signals) signal.addEventListener("abort", end);
  if (signals.some(({ aborted }) => aborted)) end();
  return { signal: own.signal, end };
};
