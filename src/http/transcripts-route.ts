import { z } from "zod";
import { ServiceError } from "../contract/errors.ts";
import { readBounded } from "../lib/read-bounded.ts";
import { bodyLimits, readJsonObjectBytes } from "./body.ts";
import { errorResponses } from "./openapi.ts";
import type { Route } from "./route.ts";

type Dependencies = {
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
        "X-Bridge-Key": z.string().optional().describe("One of BRIDGE_API_KEYS, or a token of OAuth"),
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
    const key = request.headers.get("x-bridge-key") || null;
    const headers = new Headers({ "content-type": "application/json", accept: "application/json" });
    for (const name of passedOn)
      if (request.headers.has(name)) headers.set(name, request.headers.get(name) ?? "");
    if (key !== null) headers.set("authorization", `Bearer ${key}`);
    const late = AbortSignal.timeout(patienceMs);
    const done = new AbortController();
    try {
      const answer = await fetch(`${bridgeUrl.replace(/\/+$/, "")}/mcp`, {
        method: "POST",
        headers,
        body: bytes as Uint8Array<ArrayBuffer>,
        redirect: "manual",
        signal: AbortSignal.any([request.signal, late, done.signal]),
      });
      return { status: 200, headers: answerHeaders, body: await answerOf(answer, key !== null) };
    } catch (cause) {
      if (cause instanceof ServiceError || request.signal.aborted) throw cause;
      if (late.aborted)
        throw unavailable(`did not answer within ${patienceMs / 1000} s; look into its log`, cause);
      throw unavailable("does not answer; start it with `bridge serve`", cause);
    } finally {
      // Whatever the other side still sends is not waited for.
      done.abort();
    }
  },
});

const answerHeaders = { "content-type": "application/json", "cache-control": "no-store" };

/** The body of a successful answer in JSON. */
const answerOf = async (
  { status, headers, body }: Response,
  isKeyed: boolean,
): Promise<Uint8Array<ArrayBuffer>> => {
  if (status === 401) throw keyRefused(isKeyed);
  if (status !== 200 || headers.get("content-type")?.startsWith("application/json") !== true)
    throw unavailable(`answered ${status}, which is not what \`bridge serve\` says; check the URL`);
  const tooMuch = `answered with more than ${maxBytes.toLocaleString("en")} bytes; ask for less`;
  return await readBounded(body, maxBytes, () => unavailable(tooMuch));
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
