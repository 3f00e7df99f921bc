import {
  createMcpHandler,
  isJSONRPCRequest,
  PerRequestHTTPServerTransport,
  SdkError,
  SdkErrorCode,
  SUPPORTED_PROTOCOL_VERSIONS,
  WebStandardStreamableHTTPServerTransport,
  type JSONRPCErrorResponse,
  type JSONRPCRequest,
  type McpServerFactory,
} from "@modelcontextprotocol/server";
import { readJson } from "../http/body.ts";
import { json, type Call, type Route } from "../http/route.ts";
import { orAborted } from "../lib/wait.ts";
import { answerForm, lenientMessage, type AnswerForm } from "./message.ts";
import { paramsFault } from "./params-fault.ts";
import type { McpOptions } from "./routes.ts";
import { invalidRequest, maxBatch, notMessages, rpcError, serverError, shuttingDown } from "./rpc-failure.ts";
import { checkScopes, type Caller, type NewServer } from "./server.ts";

/** `/mcp`: Streamable HTTP in both protocol eras, without sessions. Each request has an MCP server of its own. */
export const streamableHandler = ({
  newServer,
  operations = {},
  log,
  closing,
  pingEveryMs = 15_000,
  bus,
}: McpOptions): Route["handle"] => {
  const factory: McpServerFactory = ({ authInfo }) => newServer(authInfo?.extra?.["caller"] as Caller);
  const newHandler = (responseMode: AnswerForm = "auto") =>
    createMcpHandler(factory, {
      keepAliveMs: pingEveryMs,
      responseMode,
      ...(bus !== undefined && { bus }),
      // The client gets the error, and the request log names the request.
      onerror: (error) => log.debug({ err: error }, "mcp"),
    });
  const requests = { auto: newHandler(), json: newHandler("json"), sse: newHandler("sse") };
  // Subscriptions do not end by themselves: they are closed at the shutdown, running calls are not.
  const subscriptions = newHandler();
  closing.addEventListener("abort", () => void subscriptions.close(), { once: true });

  return async (call) => {
    const { request } = call;
    const authInfo = authInfoOf(call);
    if (request.method !== "POST")
      return withAllow("POST, OPTIONS", await requests.auto.fetch(request, { authInfo }));
    const body = await readJson(request);
    if (Array.isArray(body) && body.length > maxBatch) return notMessages();
    const parsedBody = lenientMessage(body);
    checkScopes(parsedBody, operations, call.scopes);
    if (isBatchWithInitialize(parsedBody))
      return rpcError(400, invalidRequest, "Invalid Request: send initialize by itself, not in a batch");
    const form = answerForm(request.headers.get("accept"));
    if (form === null) return rpcError(406, serverError, notAcceptable);
    const legacy = legacyRequestOf(request, parsedBody);
    const fault = legacy === null ? faultOfLaterEra(parsedBody) : paramsFault(legacy);
    if (fault !== null) return json(200, fault);
    if (legacy !== null)
      return answerLegacy(newServer, call, legacy, { keepAliveMs: pingEveryMs, responseMode: form });
    const accepting = withFullAccept(request);
    if (form === "json" && Array.isArray(parsedBody) && parsedBody.some(isJSONRPCRequest))
      return answerInJson(newServer, call, accepting, parsedBody);
    if (!isSubscription(parsedBody)) return requests[form].fetch(accepting, { authInfo, parsedBody });
    if (closing.aborted) throw shuttingDown();
    return subscriptions.fetch(accepting, { authInfo, parsedBody });
  };
};

const notAcceptable =
  "Not Acceptable: an answer is application/json or text/event-stream; send one of them, or both, as Accept";

/** The SDK's handlers refuse clients that do not name both forms. */
const withFullAccept = (request: Request): Request => {
  const accept = request.headers.get("accept") ?? "";
  if (accept.includes("application/json") && accept.includes("text/event-stream")) return request;
  const headers = new Headers(request.headers);
  headers.set("accept", "application/json, text/event-stream");
  return new Request(request.url, { method: "POST", headers, signal: request.signal });
};

const withAllow = (allow: string, response: Response): Response => {
  if (response.status === 405) response.headers.set("allow", allow);
  return response;
};

/** The SDK passes this on to the factory. It does not hold the key. */
const authInfoOf = ({ principal, scopes, requestId, note }: Call) => ({
  token: "",
  clientId: principal,
  scopes: [],
  extra: { caller: { principal, scopes, requestId, note, isBatch: true } satisfies Caller },
});

/** Uses the SDK's costly schema only for requests that have a fault. */
const faultOfLaterEra = (body: unknown): JSONRPCErrorResponse | null => {
  if (typeof body !== "object" || body === null || !("method" in body) || body.method !== "tools/call")
    return null;
  const fault = paramsFault(body as JSONRPCRequest);
  return fault !== null && isJSONRPCRequest(body) ? fault : null;
};

/** The protocol forbids it. The SDK would answer with a dump of its schema. */
const isBatchWithInitialize = (body: unknown): boolean =>
  Array.isArray(body) &&
  body.some((message: unknown) => isJSONRPCRequest(message) && message.method === "initialize");

const isSubscription = (body: unknown): boolean =>
  typeof body === "object" && body !== null && "method" in body && body.method === "subscriptions/listen";

/** The body as a single request of the 2025 era. Null: it is none (a batch, a notification…); the SDK's handler answers. */
const legacyRequestOf = ({ headers }: Request, body: unknown): JSONRPCRequest | null => {
  const version = headers.get("mcp-protocol-version");
  if (version !== null && !SUPPORTED_PROTOCOL_VERSIONS.includes(version)) return null;
  if (headers.has("mcp-method")) return null;
  if (!isJSONRPCRequest(body)) return null;
  // Requests of the 2026 era have fields with this prefix in `_meta`.
  const ofLaterEra = Object.keys(body.params?._meta ?? {}).some((key) => key.startsWith(reserved));
  return ofLaterEra ? null : body;
};

const reserved = "io.modelcontextprotocol/";

/** In JSON, or in a stream when something comes before the result. The SDK always opens one, at double the cost of a call. */
const answerLegacy = async (
  newServer: NewServer,
  { request, principal, scopes, requestId, note }: Call,
  message: JSONRPCRequest,
  options: { keepAliveMs: number; responseMode: AnswerForm },
): Promise<Response> => {
  const transport = new PerRequestHTTPServerTransport({ classification: { era: "legacy" }, ...options });
  await newServer({ principal, scopes, requestId, note }).connect(transport);
  try {
    const response = await transport.handleMessage(message, { request });
    // Clients of this era read the body only of a successful HTTP status, also for errors of JSON-RPC.
    return response.ok ? response : Response.json(await response.json());
  } catch (error) {
    const isDisconnected = error instanceof SdkError && error.code === SdkErrorCode.ConnectionClosed;
    if (!isDisconnected) throw error;
    return new Response(null, { status: 499 });
  }
};

/** A batch of the 2025 era for a client that takes JSON only: the SDK's handler would open a stream. */
const answerInJson = async (
  newServer: NewServer,
  { principal, scopes, requestId, note }: Call,
  request: Request,
  parsedBody: unknown[],
): Promise<Response> => {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await newServer({ principal, scopes, requestId, note, isBatch: true }).connect(transport);
  try {
    return await orAborted(transport.handleRequest(request, { parsedBody }), request.signal);
  } finally {
    // The calls of a client that has left end with it.
    await transport.close();
  }
};
