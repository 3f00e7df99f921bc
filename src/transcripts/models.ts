import { z } from "zod";
import type { BridgeSettings } from "../config/bridge-variables.ts";
import { ServiceError } from "../contract/errors.ts";

/** Vectors of texts, in their order. */
export type Embed = {
  model: string;
  vectors: (texts: readonly string[], signal: AbortSignal) => Promise<number[][]>;
};

export type Complete = {
  model: string;
  answer: (system: string, user: string, signal: AbortSignal) => Promise<string>;
};

/** Null: no model is set for it. */
export type Models = { embed: Embed | null; complete: Complete | null };

type Settings = Pick<BridgeSettings, "llmBase" | "llmKey" | "llmEmbedModel" | "llmChatModel">;

/** The models behind an OpenAI-compatible endpoint. @throws ServiceError model_failed */
export const createModels = ({ llmBase, llmKey, llmEmbedModel, llmChatModel }: Settings): Models => {
  if (llmBase === null) return { embed: null, complete: null };
  const ask = <Answer>(path: string, body: object, schema: z.ZodType<Answer>, signal: AbortSignal) =>
    post(`${llmBase.replace(/\/+$/, "")}/${path}`, { body, key: llmKey, schema, signal });
  const embed = (model: string): Embed => ({
    model,
    vectors: async (input, signal) => {
      const { data } = await ask("embeddings", { model, input }, Embeddings, signal);
      const vectors = data.toSorted((a, b) => a.index - b.index).map(({ embedding }) => embedding);
      if (vectors.length === input.length) return vectors;
      throw failed(`answered with ${vectors.length} vectors for ${input.length} texts`);
    },
  });
  const complete = (model: string): Complete => ({
    model,
    answer: async (system, user, signal) => {
      const messages = [
        { role: "system", content: system },
        { role: "user", content: user },
      ];
      const { choices } = await ask("chat/completions", { model, messages }, Completion, signal);
      const text = choices[0]?.message.content?.trim() ?? "";
      if (text !== "") return text;
      throw failed("answered without a text");
    },
  });
  return {
    embed: llmEmbedModel === null ? null : embed(llmEmbedModel),
    complete: llmChatModel === null ? null : complete(llmChatModel),
  };
};

const Embeddings = z.object({
  data: z.array(z.object({ index: z.int(), embedding: z.array(z.number()).min(1) })),
});
const Completion = z.object({
  choices: z.array(z.object({ message: z.object({ content: z.string().nullish() }) })),
});

const answerWithinMs = 60_000;

type Ask<Answer> = { body: object; key: string | null; schema: z.ZodType<Answer>; signal: AbortSignal };

const post = async <Answer>(url: string, { body, key, schema, signal }: Ask<Answer>): Promise<Answer> => {
  const timeout = AbortSignal.timeout(answerWithinMs);
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(key !== null && { authorization: `Bearer ${key}` }),
      },
      body: JSON.stringify(body),
      // A redirect could send the texts to another host.
      redirect: "error",
      signal: AbortSignal.any([signal, timeout]),
    });
    if (!response.ok)
      throw failed(`answered ${response.status}${response.status === 401 ? "; check LLM_API_KEY" : ""}`);
    return schema.parse(await response.json());
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ServiceError) throw error;
    if (timeout.aborted) throw failed(`did not answer within ${answerWithinMs / 1000} s`, error);
    if (error instanceof SyntaxError || error instanceof z.ZodError)
      throw failed("answered with something else than OpenAI's format", error);
    throw failed("cannot be reached", error);
  }
};

const failed = (what: string, cause?: unknown): ServiceError =>
  new ServiceError(
    "model_failed",
    `The model's endpoint ${what}; see LLM_API_BASE and the models that are set`,
    { cause },
  );
