import type { Usage } from "../contract/job.ts";
import { toJson } from "../lib/well-formed.ts";
import { type Delta, contentOf } from "./delta.ts";
import type { PublicError } from "./failure.ts";

/** Common to all chunks of an answer and to a whole answer. `created` in seconds since the epoch. */
export type AnswerHead = { id: string; created: number; model: string };

export const doneEvent = "data: [DONE]\n\n";
export const errorEvent = ({ message, type, param, code }: PublicError): string =>
  `data: ${oneLine({ error: { message: piecesOf(message)[0], type, param, code } })}\n\n`;

/**
 * Writers of whole server-sent events: `data: …`, of at most 32 KiB, and an empty line. Long texts are several events. A
 * stream has thousands of deltas: their common part is serialised once.
 */
export const createChunks = ({ id, created, model }: AnswerHead) => {
  const head = oneLine({ id, object: "chat.completion.chunk", created, model }).slice(0, -1);
  const before = `data: ${head},"choices":[{"index":0,"delta":`;
  const open = (name: string, value: string, fields = ""): string =>
    `${before}{"${name}":${oneLine(value)}},"finish_reason":null${fields}}]}\n\n`;
  const spread = (name: string, text: string, fields?: string): string =>
    piecesOf(text)
      .map((piece) => open(name, piece, fields))
      .join("");
  const content = (text: string, fields?: string): string => spread("content", text, fields);

  return {
    role: (): string => open("role", "assistant"),
    delta: (delta: Delta): string => {
      switch (delta.kind) {
        case "thinking":
          return spread("reasoning_content", delta.text, tag("thinking"));
        case "text":
          return content(delta.text);
        case "narration":
        case "final":
          return content(delta.text, tag(delta.kind));
        case "tool_use":
          return content(
            contentOf(delta),
            `${tag("tool_use")},"x_service_tool_name":${oneLine(delta.name.slice(0, longestName))},${toolId(delta.id)}`,
          );
        case "tool_result":
          return content(
            contentOf(delta),
            `${tag("tool_result")},${toolId(delta.id)},"x_service_is_error":${delta.isError}`,
          );
      }
    },
    /** The reply to a request that needs no agent. */
    streamConfig: (text: string): string => content(text, tag("stream_config")),
    /** The last chunk, with the usage; with `includeUsage` followed by the public format's usage chunk. */
    stop: (usage: Usage | null, includeUsage: boolean): string => {
      const counted = oneLine(publicUsage(usage));
      const stop = `${before}{},"finish_reason":"stop"}],"usage":${counted}}\n\n`;
      return includeUsage ? `${stop}data: ${head},"choices":[],"usage":${counted}}\n\n` : stop;
    },
  };
};

/** Usage in the public terms: the prompt includes cached tokens. Unknown usage counts as 0: clients need numbers. */
export const publicUsage = (usage: Usage | null) => {
  const cached = usage?.cache_read_input_tokens ?? 0;
  const prompt = (usage?.input_tokens ?? 0) + (usage?.cache_creation_input_tokens ?? 0) + cached;
  const completion = usage?.output_tokens ?? 0;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached },
  };
};

/**
 * A text in the pieces of its events. Some clients refuse a line above 64 or 128 KiB. A character takes at most six bytes
 * in JSON; the rest of a line, with names of at most 256 characters, stays below 8 KiB.
 */
const piecesOf = (text: string): string[] =>
  text.length <= longestPiece ? [text] : (text.match(/.{1,4096}/gsu) ?? []);

const longestPiece = 4096;
const longestName = 256;

const toolId = (id: string): string => `"x_service_tool_use_id":${oneLine(id.slice(0, longestName))}`;

const tag = (kind: string): string => `,"x_service_event_type":"${kind}"`;

/** JSON without characters at which some clients' line readers break. */
const oneLine = (value: unknown): string => {
  const json = toJson(value);
  return otherLineBreaks.test(json) ? json.replace(eachOtherLineBreak, escaped) : json;
};

const otherLineBreaks = /[\u0085\u2028\u2029]/;
const eachOtherLineBreak = new RegExp(otherLineBreaks, "g");
const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
