import {
  isJSONRPCRequest,
  PerRequestHTTPServerTransport,
  SdkError,
  SdkErrorCode,
  SUPPORTED_PROTOCOL_VERSIONS,
  type JSONRPCRequest,
} from "@modelcontextprotocol/server";
import type { Call } from "../http/route.ts";
import type { NewServer } from "./server.ts";

/**
 * The body as a plain request of the 2025 era, which is what such clients send; null: it is something else (a batch, a
 * notification, the 2026 era, a mistake), which the SDK's handler sorts out.
 */
export const legacyRequestOf = ({ headers }: Request, body: unknown): JSONRPCRequest | null => {
  const version = headers.get("mcp-protocol-version");
  if (version !== null && !SUPPORTED_PROTOCOL_VERSIONS.includes(version)) return null;
  if (headers.has("mcp-method")) return null;
  const accept = headers.get("accept") ?? "";
  if (!accept.includes("application/json") || !accept.includes("text/event-stream")) return null;
  if (!isJSONRPCRequest(body)) return null;
  // What the 2026 era says of a request stands in its `_meta` under names of this kind.
  const ofLaterEra = Object.keys(body.params?._meta ?? {}).some((key) => key.startsWith(reserved));
  return ofLaterEra ? null : body;
};

const reserved = "io.modelcontextprotocol/";

/**
 * Answers it in JSON, or, when the server has something to say before its result, in a stream. The SDK's handler always
 * opens a stream for this era, which costs as much again as the call.
 */
export const answerLegacy = async (
  newServer: NewServer,
  { request, principal, requestId, note }: Call,
  message: JSONRPCRequest,
  keepAliveMs: number,
): Promise<Response> => {
  const transport = new PerRequestHTTPServerTransport({ classification: { era: "legacy" }, keepAliveMs });
  await newServer({ principal, requestId, note }).connect(transport);
  try {
    const response = await transport.handleMessage(message, { request });
    // In this era an error of JSON-RPC is no error of HTTP: clients would look no further than the status.
    return response.ok ? response : Response.json(await response.json());
  } catch (error) {
    const gone = error instanceof SdkError && error.code === SdkErrorCode.ConnectionClosed;
    if (!gone) throw error;
    return new Response(null, { status: 499 });
  }
};
