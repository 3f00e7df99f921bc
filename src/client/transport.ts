import { createParser, type EventSourceMessage } from "eventsource-parser";
import {
  brokenOff,
  ClientError,
  errorOfAnswer,
  errorOfFetch,
  notTheService,
  parsedJson,
} from "./client-error.ts";

export type ClientOptions = {
  /** Where the service is, e.g. `http://127.0.0.1:8200`. */
  baseUrl: string;
  apiKey?: string | undefined;
  /** Default: the global one. */
  fetch?: typeof globalThis.fetch;
};

export type HttpRequest = {
  method: string;
  /** Path and query, encoded. */
  target: string;
  headers?: Record<string, string>;
  body?: string | FormData;
  signal?: AbortSignal | undefined;
  /** Statuses of an answer besides 2xx. */
  answers?: readonly number[];
};

export type Transport = {
  /** The answer's headers are there and successful; its body is unread. */
  open: (ask: HttpRequest) => Promise<Response>;
  /** The JSON object of a successful answer. Every other answer rejects with a `ClientError`. */
  json: (ask: HttpRequest) => Promise<object>;
};

export const createTransport = ({ baseUrl, apiKey, fetch = globalThis.fetch }: ClientOptions): Transport => {
  const base = baseUrl.replace(/\/+$/, "");

  const open = async ({ target, headers, signal, answers = [], ...rest }: HttpRequest): Promise<Response> => {
    const init: RequestInit = {
      ...rest,
      headers: { ...keyHeader(apiKey), ...headers },
      // A redirect would send the key to its target: the service never redirects.
      redirect: "manual",
      ...(signal && { signal }),
    };
    const attempt = (): Promise<Response> =>
      fetch(base + target, init).catch((error: unknown) => {
        signal?.throwIfAborted();
        throw errorOfFetch(error, base);
      });
    const response = await attempt().catch((error: unknown) => {
      // An idle connection may have closed just before it was reused. A retry is safe except for a POST.
      if (rest.method !== "POST" && error instanceof ClientError && error.code === "no_answer")
        return attempt();
      throw error;
    });
    if (response.ok || answers.includes(response.status)) return response;
    throw errorOfAnswer(response, await bodyText(response, signal), {
      baseUrl: base,
      keyed: Boolean(apiKey),
    });
  };

  const bodyText = (response: Response, signal: AbortSignal | undefined): Promise<string> =>
    response.text().catch((error: unknown) => {
      signal?.throwIfAborted();
      throw brokenOff(error, base);
    });

  const json = async (ask: HttpRequest): Promise<object> => {
    const response = await open(ask);
    const value = parsedJson(await bodyText(response, ask.signal));
    if (typeof value !== "object" || value === null) throw notTheService(response, base);
    return value;
  };

  return { open, json };
};

/** Header values are bytes: a key beyond ASCII is sent as the UTF-8 that the service compares it with. */
const keyHeader = (key: string | undefined): Record<string, string> => {
  if (!key) return {};
  if (/[\0\r\n]/.test(key)) {
    const message = "The API key has a line break in it; check SERVICE_API_KEY";
    throw new ClientError(message, { status: 0, code: "unauthorized" });
  }
  return { "x-api-key": String.fromCharCode(...new TextEncoder().encode(key)) };
};

type Connection = HttpRequest & {
  /** The answer's headers are there; an exception ends the connection. */
  onOpen?: (response: Response) => void;
};

/** Silence after which a connection counts as dead: the service pings every 15 s. */
const silenceMs = 45_000;

/** What one connection delivers, until it ends or breaks. A consumer that stops early closes it. */
export async function* messages(
  transport: Transport,
  { signal, onOpen, ...ask }: Connection,
): AsyncGenerator<EventSourceMessage, void> {
  const connection = new AbortController();
  const ended = AbortSignal.any([connection.signal, ...(signal === undefined ? [] : [signal])]);
  /** Only the service's silence counts, not the time that the consumer takes. */
  const watched = <Value>(next: Promise<Value>): Promise<Value> => {
    const silence = setTimeout(() => connection.abort(), silenceMs);
    return next.finally(() => clearTimeout(silence));
  };
  try {
    const headers = { accept: "text/event-stream", ...ask.headers };
    const response = await watched(transport.open({ ...ask, headers, signal: ended }));
    onOpen?.(response);
    const received: EventSourceMessage[] = [];
    const parser = createParser({ onEvent: (message) => received.push(message), maxBufferSize: 67_108_864 });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    while (reader !== undefined) {
      const { done, value } = await watched(reader.read());
      if (done) return;
      parser.feed(value);
      yield* received.splice(0);
    }
  } finally {
    connection.abort();
  }
}
