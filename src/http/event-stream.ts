import type { ServerResponse } from "node:http";
import { ping } from "../lib/sse.ts";
import type { Reply } from "./route.ts";

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

/**
 * Writes server-sent events to the connection directly, because the layers in between make up most of the cost of a
 * piece. Never rejects.
 */
export type EventBody = (outgoing: ServerResponse) => Promise<void>;

/**
 * The pieces of `source` as a body, with pings. The next piece is requested when the reader has taken the last one, so a
 * slow reader delays only its own stream. `source` must end when its signal aborts, which it always does at the end of
 * the stream.
 */
export const eventStream =
  (
    source: (signal: AbortSignal) => AsyncIterable<string | Uint8Array>,
    { endedBy, pingEveryMs = 15_000, onFailure, stall }: Options,
  ): EventBody =>
  async (outgoing) => {
    const ending = endSignal(endedBy);
    outgoing.once("close", ending.now);
    if (outgoing.destroyed) ending.now();
    const silence = setInterval(() => {
      // A slow reader may still have to read the beginning of an event.
      if (!outgoing.writableNeedDrain && !ending.signal.aborted) outgoing.write(ping);
    }, pingEveryMs);
    try {
      for await (const piece of source(ending.signal)) {
        if (ending.signal.aborted) break;
        if (!outgoing.write(piece)) await drained(outgoing, stall, ending.signal);
        silence.refresh();
      }
    } catch (error) {
      onFailure(error);
    } finally {
      clearInterval(silence);
      ending.now();
      outgoing.off("close", ending.now);
      outgoing.end();
    }
  };

/** Resolves when the reader has taken what was written, when it stalls, or when the signal aborts. */
const drained = async (
  outgoing: ServerResponse,
  stall: Options["stall"],
  signal: AbortSignal,
): Promise<void> => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = (): void => resolve();
  outgoing.once("drain", done);
  signal.addEventListener("abort", done, { once: true });
  const patience = stall && setTimeout(() => (stall.disconnect(), resolve()), stall.afterMs);
  if (!signal.aborted) await promise;
  clearTimeout(patience);
  outgoing.off("drain", done);
  signal.removeEventListener("abort", done);
};

/** A signal that follows the others until `now`, and then removes its listeners: the others may outlive the stream. */
const endSignal = (signals: readonly AbortSignal[]) => {
  const own = new AbortController();
  const now = (): void => {
    for (const signal of signals) signal.removeEventListener("abort", now);
    own.abort();
  };
  for (const signal of signals) signal.addEventListener("abort", now);
  if (signals.some(({ aborted }) => aborted)) now();
  return { signal: own.signal, now };
};
