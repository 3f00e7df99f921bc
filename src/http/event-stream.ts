import type { ServerResponse } from "node:http";
import { ping } from "../lib/sse.ts";
import type { Reply } from "./reply.ts";

/** A reply of server-sent events; `headers` are added to its own, and win. */
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
  /** Each of them ends the stream: the caller's leaving, the end of the service. */
  endedBy: readonly AbortSignal[];
  /** How long the stream may be silent before it sends a ping; default 15 s. */
  pingEveryMs?: number | undefined;
  /** Called with what the source threw. The status has been sent: the stream just ends. */
  onFailure: (error: unknown) => void;
  /** Of a reader that takes nothing for `afterMs`: it counts as gone, and `cut` ends its connection. Absent: it may. */
  stall?: { afterMs: number; cut: () => void } | undefined;
};

/**
 * Writes server-sent events to the connection itself: what a live stream costs per piece is most of it what lies in between.
 * Never rejects.
 */
export type EventBody = (outgoing: ServerResponse) => Promise<void>;

/**
 * The pieces of `source` as a body, pings included. The next piece is asked for when the last one has been taken, so a
 * slow reader holds nothing but its own stream. The signal that `source` is given is aborted when the stream is over,
 * however it came to that: `source` must then end.
 */
export const eventStream =
  (
    source: (signal: AbortSignal) => AsyncIterable<string | Uint8Array>,
    { endedBy, pingEveryMs = 15_000, onFailure, stall }: Options,
  ): EventBody =>
  async (outgoing) => {
    const ending = endOf(endedBy);
    outgoing.once("close", ending.now);
    if (outgoing.destroyed) ending.now();
    const silence = setInterval(() => {
      // What a slow reader has not taken yet may be the beginning of an event.
      if (!outgoing.writableNeedDrain && !ending.signal.aborted) outgoing.write(ping);
    }, pingEveryMs);
    try {
      for await (const piece of source(ending.signal)) {
        if (ending.signal.aborted) break;
        if (!outgoing.write(piece)) await taken(outgoing, stall, ending.signal);
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

/** Resolves when the reader has taken what was written, or nothing more is to be written. */
const taken = async (
  outgoing: ServerResponse,
  stall: Options["stall"],
  signal: AbortSignal,
): Promise<void> => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = (): void => resolve();
  outgoing.once("drain", done);
  signal.addEventListener("abort", done, { once: true });
  const patience = stall && setTimeout(() => (stall.cut(), resolve()), stall.afterMs);
  if (!signal.aborted) await promise;
  clearTimeout(patience);
  outgoing.off("drain", done);
  signal.removeEventListener("abort", done);
};

/** A signal that follows the others until `now`, and leaves no listener on them after it: some of them outlive every stream. */
const endOf = (signals: readonly AbortSignal[]) => {
  const own = new AbortController();
  const now = (): void => {
    for (const signal of signals) signal.removeEventListener("abort", now);
    own.abort();
  };
  for (const signal of signals) signal.addEventListener("abort", now);
  if (signals.some(({ aborted }) => aborted)) now();
  return { signal: own.signal, now };
};
