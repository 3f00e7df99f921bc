import { createParser, type EventSourceMessage } from "eventsource-parser";
import type { Ask, Transport } from "./transport.ts";

type Connection = Ask & {
  /** The answer's headers are there; what it throws ends the connection. */
  onOpen?: (response: Response) => void;
};

/** Silence after which a connection is taken for dead: the service pings every 15 s. */
const silenceMs = 45_000;

/** What one connection delivers, until it ends or breaks. A consumer that breaks off closes it. */
export async function* messages(
  transport: Transport,
  { signal, onOpen, ...ask }: Connection,
): AsyncGenerator<EventSourceMessage, void> {
  const connection = new AbortController();
  const stop = (): void => connection.abort(signal?.reason);
  signal?.addEventListener("abort", stop, { once: true });
  if (signal?.aborted) stop();
  // The service's silence counts, not the time that our own reader takes.
  let waiting = true;
  const watchdog = setTimeout(() => waiting && connection.abort(), silenceMs);
  try {
    const headers = { accept: "text/event-stream", ...ask.headers };
    const response = await transport.open({ ...ask, headers, signal: connection.signal });
    onOpen?.(response);
    const received: EventSourceMessage[] = [];
    const parser = createParser({ onEvent: (message) => received.push(message), maxBufferSize: 67_108_864 });
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      waiting = false;
      parser.feed(text);
      yield* received.splice(0);
      waiting = true;
      watchdog.refresh();
    }
  } finally {
    clearTimeout(watchdog);
    signal?.removeEventListener("abort", stop);
    connection.abort();
  }
}
