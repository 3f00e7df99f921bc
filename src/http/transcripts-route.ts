import { z } from "zod";
import { ServiceError } from "../contract/errors.ts";
import { bodyLimits, readJsonObjectBytes } from "./body.ts";
import { errorResponses } from "./openapi.ts";
import type { Route } from "./route.ts";

type Dependencies = {
  /** Where `bridge serve` listens. */
  bridgeUrl: string;
  /** Default: 30 s. */
  patienceMs?: number;
};

/** The transcript service's own answers are a fifth of it. */
const maxBytes = 1_048_576;

/** Headers of MCP that must agree with the body. */
const passedOn = ["mcp-protocol-version", "mcp-method", "mcp-name"];

/**
 * `POST /transcripts/mcp`: passes a request of MCP on to the transcript service beside, so that the page in the browser
 * talks to one origin only. That service has keys of its own: the caller sends one in `X-Bridge-Key`.
 */
export const transcriptsRoute = ({ bridgeUrl, patienceMs = 30_000 }: Dependencies): Route => ({
  method: "post",
  path: "/transcripts/mcp",
  openapi: {
    operationId: "transcripts_mcp",
    summary: "Ask the transcript service",
    description:
      "Passes one request of MCP on to the `bridge` of SERVICE_BRIDGE_URL. It asks for its own key in `X-Bridge-Key`.",
    requestParams: {
      header: z.object({
        "X-Bridge-Key": z
          .string()
          .optional()
          .meta({ description: "One of BRIDGE_API_KEYS, or a token of OAuth" }),
      }),
    },
    requestBody: { required: true, content: { "application/json": { schema: z.looseObject({}) } } },
    responses: {
      "200": {
        description: "The answer of MCP",
        content: { "application/json": { schema: z.looseObject({}) } },
      },
      ...errorResponses([
        "invalid_request",
        "unsupported_content_type",
        "body_too_large",
        "bridge_key_refused",
        "bridge_unavailable",
      ]),
    },
  },
  handle: async ({ request }) => {
    const { bytes } = await readJsonObjectBytes(request, bodyLimits);
    const headers = new Headers({ "content-type": "application/json", accept: "application/json" });
    for (const name of passedOn) {
      const value = request.headers.get(name);
      if (value !== null) headers.set(name, value);
    }
    const key = request.headers.get("x-bridge-key");
    if (key) headers.set("authorization", `Bearer ${key}`);
    const body = await ask(`${bridgeUrl.replace(/\/+$/, "")}/mcp`, {
      headers,
      body: bytes as Uint8Array<ArrayBuffer>,
      callerLeft: request.signal,
      patienceMs,
    });
    const type = { "content-type": "application/json", "cache-control": "no-store" };
    return { status: 200, headers: type, body };
  },
});

type Question = {
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
  callerLeft: AbortSignal;
  patienceMs: number;
};

/** The body of a successful answer in JSON. */
const ask = async (
  url: string,
  { headers, body, callerLeft, patienceMs }: Question,
): Promise<Uint8Array<ArrayBuffer>> => {
  const late = AbortSignal.timeout(patienceMs);
  const done = new AbortController();
  const signal = AbortSignal.any([callerLeft, late, done.signal]);
  try {
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
    const { status } = response;
    if (status === 401) throw keyRefused(headers.has("authorization"));
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    if (status !== 200 || !isJson)
      throw unavailable(`answered ${status}, which is not what \`bridge serve\` says; check the URL`);
    return await bounded(response);
  } catch (cause) {
    if (cause instanceof ServiceError || callerLeft.aborted) throw cause;
    if (late.aborted)
      throw unavailable(`did not answer within ${patienceMs / 1000} s; look into its log`, cause);
    throw unavailable("does not answer; start it with `bridge serve`", cause);
  } finally {
    // Whatever the other side still sends is not waited for.
    done.abort();
  }
};

const bounded = async ({ body }: Response): Promise<Uint8Array<ArrayBuffer>> => {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes)
      throw unavailable(`answered with more than ${maxBytes.toLocaleString("en")} bytes; ask for less`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
};

const keyRefused = (isKeyed: boolean): ServiceError =>
  new ServiceError(
    "bridge_key_refused",
    isKeyed
      ? "The transcript service does not accept this key; send one of its BRIDGE_API_KEYS in X-Bridge-Key"
      : "The transcript service asks for a key; send one of its BRIDGE_API_KEYS in X-Bridge-Key",
  );

const unavailable = (what: string, cause?: unknown): ServiceError =>
  new ServiceError("bridge_unavailable", `The transcript service of SERVICE_BRIDGE_URL ${what}`, { cause });
