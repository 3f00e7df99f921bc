import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type Block, contentOf, type MessageAnswer, stopReasonOf } from "./answer.ts";

/** Tokens of the last message are input, those before it are counted as cached. */
export type Envelope = { model: string; inputTokens: number; cachedTokens: number };

/** Writes the answer as server-sent events, as fast as the reader reads or as `rate` says. Ends early when the reader leaves. */
export const streamMessage = async (
  response: ServerResponse,
  answer: MessageAnswer,
  { envelope, signal }: { envelope: Envelope; signal: AbortSignal },
): Promise<void> => {
  const send = async (event: { type: string }): Promise<void> => {
    signal.throwIfAborted();
    const taken = response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    if (!taken) await once(response, "drain", { signal });
  };
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
  });
  await send({ type: "message_start", message: { ...emptyMessage(envelope), usage: usage(envelope, 1) } } as {
    type: string;
  });
  await send({ type: "ping" });
  let deltas = 0;
  for (const [index, block] of answer.blocks.entries()) {
    await send({ type: "content_block_start", index, content_block: openBlock(block) } as { type: string });
    for (const delta of deltasOf(block, answer.deltaLength)) {
      if (deltas === answer.interrupted?.afterDeltas)
        return await interrupt(response, answer.interrupted.by, signal);
      if (answer.rate !== undefined && deltas > 0) await delay(1000 / answer.rate, undefined, { signal });
      await send({ type: "content_block_delta", index, delta } as { type: string });
      deltas += 1;
    }
    await send({ type: "content_block_stop", index } as { type: string });
  }
  const stop = { stop_reason: stopReasonOf(answer), stop_sequence: null };
  await send({ type: "message_delta", delta: stop, usage: usage(envelope, deltas) } as { type: string });
  await send({ type: "message_stop" });
  response.end();
};

/** The same answer in one piece, for a request without `stream`. */
export const wholeMessage = (answer: MessageAnswer, envelope: Envelope) => {
  const deltas = answer.blocks.reduce(
    (sum, block) => sum + [...deltasOf(block, answer.deltaLength)].length,
    0,
  );
  const content = answer.blocks.map((block) => ({
    ...openBlock(block),
    ...block,
    ...(block.type === "thinking" ? { signature } : {}),
  }));
  return {
    ...emptyMessage(envelope),
    content,
    stop_reason: stopReasonOf(answer),
    usage: usage(envelope, deltas),
  };
};

const interrupt = async (
  response: ServerResponse,
  by: "cut" | "stall",
  signal: AbortSignal,
): Promise<void> => {
  // What was said before the cut must have left, or the reader would see a connection that never answered.
  await new Promise<void>((resolve) => response.write(": interrupted\n\n", () => resolve()));
  if (by === "stall" && !signal.aborted) await once(signal, "abort");
  response.destroy();
};

const signature = "c2lnbmVk";

const emptyMessage = ({ model }: Envelope) => ({
  id: `msg_${randomBytes(12).toString("hex")}`,
  type: "message",
  role: "assistant",
  model,
  content: [],
  stop_reason: null,
  stop_sequence: null,
});

const usage = ({ inputTokens, cachedTokens }: Envelope, outputTokens: number) => ({
  input_tokens: inputTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cachedTokens,
  output_tokens: outputTokens,
});

const openBlock = (block: Block) => {
  if (block.type === "text") return { type: "text", text: "" };
  if (block.type === "thinking") return { type: "thinking", thinking: "", signature: "" };
  return { type: "tool_use", id: `toolu_${randomBytes(12).toString("hex")}`, name: block.name, input: {} };
};

function* deltasOf(block: Block, length = 12) {
  const characters = Array.from(contentOf(block));
  for (let start = 0; start < characters.length; start += length) {
    const piece = characters.slice(start, start + length).join("");
    if (block.type === "text") yield { type: "text_delta", text: piece };
    else if (block.type === "thinking") yield { type: "thinking_delta", thinking: piece };
    else yield { type: "input_json_delta", partial_json: piece };
  }
  if (block.type === "thinking") yield { type: "signature_delta", signature };
}
