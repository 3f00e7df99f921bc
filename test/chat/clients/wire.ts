import { createParser } from "eventsource-parser";
import { checkChunk, checkCompletion, checkError, checkModel, checkModels } from "../../openai-schemas.ts";

/** What a client sent and what it was answered, as far as it has read it. */
export type Exchange = {
  path: string;
  /** The request's JSON; null: it had none. */
  sent: Record<string, unknown> | null;
  headers: Headers;
  status: number;
  answered: Headers;
  /** Of the answer's body. */
  text: string;
};

/** A `fetch` that keeps what goes over the wire; the answer comes to the client as it would without. */
export const recordingFetch = () => {
  const exchanges: Exchange[] = [];
  const record = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const sent =
      request.method === "POST" ? ((await request.clone().json()) as Record<string, unknown>) : null;
    const response = await fetch(input, init);
    const { status, statusText, headers: answered, body } = response;
    const { pathname: path } = new URL(request.url);
    const exchange: Exchange = { path, sent, headers: request.headers, status, answered, text: "" };
    exchanges.push(exchange);
    const decoder = new TextDecoder();
    const keeping = new TransformStream<Uint8Array, Uint8Array>({
      transform: (bytes, controller) => {
        exchange.text += decoder.decode(bytes, { stream: true });
        controller.enqueue(bytes);
      },
    });
    return new Response(body?.pipeThrough(keeping) ?? null, { status, statusText, headers: answered });
  };
  return { fetch: record, exchanges };
};

/** Throws unless something was said, and all of it is as the public description of the format has it. */
export const checkWire = (exchanges: readonly Exchange[]): void => {
  if (exchanges.length === 0) throw new Error("nothing went over the wire");
  const faults = exchanges.flatMap(faultsOf);
  if (faults.length > 0) throw new Error(faults.join("\n"));
};

/** The `data:` lines of a stream, as far as it came. */
export const dataOf = ({ text }: Pick<Exchange, "text">): string[] => {
  const lines: string[] = [];
  createParser({
    onEvent: ({ data, event }) => void lines.push(event === undefined ? data : `named event ${event}`),
  }).feed(text);
  return lines;
};

const faultsOf = (exchange: Exchange): string[] => {
  const { status, answered, text } = exchange;
  if (status === 401) return text === refused ? [] : [`401 is ${text}`];
  // Its client left before it had read anything.
  if (text === "") return [];
  if (answered.get("content-type")?.startsWith("text/event-stream")) return faultsOfStream(exchange);
  const value = JSON.parse(text) as { object?: string };
  const faults = status === 200 ? checkFor(value)(value) : checkError(value);
  return faults.map((fault) => `${fault}: ${text}`);
};

const refused = '{"error":"Invalid or missing API key"}';

const faultsOfStream = (exchange: Exchange): string[] => {
  const lines = dataOf(exchange);
  const early = lines.indexOf("[DONE]");
  const after = early === -1 ? [] : lines.slice(early + 1);
  const faults = lines
    .filter((line) => line !== "[DONE]")
    .flatMap((line) => {
      const value = JSON.parse(line) as object;
      const found = "error" in value ? checkError(value) : checkChunk(value);
      return found.map((fault) => `${fault}: ${line}`);
    });
  return [...faults, ...after.map((line) => `after [DONE] came ${line}`)];
};

const checkFor = ({ object }: { object?: string }): ((value: unknown) => string[]) => {
  if (object === "list") return checkModels;
  return object === "model" ? checkModel : checkCompletion;
};
