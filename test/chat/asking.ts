import { createParser } from "eventsource-parser";
import type { Service } from "../service.ts";

/** A chunk as the tests look at it. */
export type Chunk = {
  id: string;
  model: string;
  choices: {
    delta: { role?: string; content?: string; reasoning_content?: string };
    finish_reason: string | null;
    x_service_event_type?: string;
    x_service_tool_name?: string;
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
  error?: { message: string; type: string; param: string | null; code: string };
};

export type Body = { messages: unknown } & Record<string, unknown>;

/** A request of one user message, to the default agent. */
export const saying = (text: string, more: Record<string, unknown> = {}): Body => ({
  model: "default",
  messages: [{ role: "user", content: text }],
  ...more,
});

export const post = (
  { url }: Pick<Service, "url">,
  body: Body,
  { headers = {}, signal }: { headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "default", ...body }),
    ...(signal !== undefined && { signal }),
  });

/** The chunks of a streamed answer as they come, `[DONE]` left out; throws when the stream ends without it. */
export async function* chunksOf(response: Response): AsyncGenerator<Chunk, void, void> {
  const waiting: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => void waiting.push(data) });
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    parser.feed(decoder.decode(bytes, { stream: true }));
    for (const data of waiting.splice(0)) {
      if (data === "[DONE]") return;
      yield JSON.parse(data) as Chunk;
    }
  }
  throw new Error("the stream ended without [DONE]");
}

export const allChunks = async (response: Response): Promise<Chunk[]> => Array.fromAsync(chunksOf(response));

/** What a client shows of them. */
export const contentOf = (chunks: readonly Chunk[]): string =>
  chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");

export const kindsOf = (chunks: readonly Chunk[]): string[] =>
  chunks.map((chunk) => {
    if (chunk.error !== undefined) return `error ${chunk.error.code}`;
    const [choice] = chunk.choices;
    if (choice === undefined) return "usage";
    return choice.x_service_event_type ?? choice.finish_reason ?? (choice.delta.role ? "role" : "text");
  });
