import {
  createMcpHandler,
  isJSONRPCRequest,
  type JSONRPCErrorResponse,
  type JSONRPCRequest,
  type McpServerFactory,
} from "@modelcontextprotocol/server";
import { readJson } from "../http/body.ts";
import { json, type Reply } from "../http/reply.ts";
import type { Call, Route } from "../http/route.ts";
import { answerLegacy, legacyRequestOf } from "./legacy-exchange.ts";
import type { McpRoutesOptions } from "./options.ts";
import { paramsFault } from "./params-fault.ts";
import { invalidRequest, maxBatch, notMessages, rpcError, rpcFailure, shuttingDown } from "./rpc-failure.ts";
import type { Caller } from "./server.ts";

/** `/mcp`: Streamable HTTP in both protocol eras, without sessions: each request is served by a server of its own. */
export const streamableRoutes = ({
  newServer,
  log,
  closing,
  pingEveryMs = 15_000,
  bus,
}: McpRoutesOptions): Route[] => {
  const factory: McpServerFactory = ({ authInfo }) => newServer(authInfo?.extra?.["caller"] as Caller);
  const newHandler = () =>
    createMcpHandler(factory, {
      keepAliveMs: pingEveryMs,
      ...(bus !== undefined && { bus }),
      // What a client did wrong is told to the client; the log names the request anyway.
      onerror: (error) => log.debug({ err: error }, "mcp"),
    });
  const requests = newHandler();
  // Subscriptions have no end of their own: they are told the end of the service, which calls under way outlast.
  const subscriptions = newHandler();
  closing.addEventListener("abort", () => void subscriptions.close(), { once: true });

  const handle = async (call: Call): Promise<Reply | Response> => {
    const { request } = call;
    const authInfo = authInfoOf(call);
    if (request.method !== "POST")
      return naming("POST, OPTIONS", await requests.fetch(request, { authInfo }));
    const body = await bodyOf(request);
    if ("refused" in body) return body.refused;
    const { parsedBody } = body;
    if (Array.isArray(parsedBody) && parsedBody.length > maxBatch) return notMessages();
    if (isBatchThatBegins(parsedBody))
      return rpcError(400, invalidRequest, "Invalid Request: send initialize by itself, not in a batch");
    const legacy = legacyRequestOf(request, parsedBody);
    const fault = legacy === null ? faultOfLaterEra(parsedBody) : paramsFault(legacy);
    if (fault !== null) return json(200, fault);
    if (legacy !== null) return answerLegacy(newServer, call, legacy, pingEveryMs);
    if (!isSubscription(parsedBody)) return requests.fetch(request, { authInfo, parsedBody });
    if (closing.aborted) throw shuttingDown();
    return subscriptions.fetch(request, { authInfo, parsedBody });
  };
  return (["get", "post", "delete"] as const).map((method) => ({
    method,
    path: "/mcp",
    handle,
    refusing: method !== "post",
  }));
};

/** A wrong method is told which is right. */
const naming = (allow: string, response: Response): Response => {
  if (response.status === 405) response.headers.set("allow", allow);
  return response;
};

/** The way by which the SDK hands on to the factory who asks. The key itself stays in front. */
const authInfoOf = ({ principal, requestId, note }: Call) => ({
  token: "",
  clientId: principal,
  scopes: [],
  extra: { caller: { principal, requestId, note, isBatch: true } satisfies Caller },
});

const bodyOf = async (request: Request): Promise<{ parsedBody: unknown } | { refused: Reply }> => {
  try {
    return { parsedBody: await readJson(request) };
  } catch (error) {
    const refused = rpcFailure(error);
    if (refused === null) throw error;
    return { refused };
  }
};

/** The common case is found out without the SDK's schema. */
const faultOfLaterEra = (body: unknown): JSONRPCErrorResponse | null => {
  if (typeof body !== "object" || body === null || !("method" in body) || body.method !== "tools/call")
    return null;
  const fault = paramsFault(body as JSONRPCRequest);
  return fault !== null && isJSONRPCRequest(body) ? fault : null;
};

/** The protocol wants a session's beginning to stand alone; the SDK would tell its faults as a dump of its schema. */
const isBatchThatBegins = (body: unknown): boolean =>
  Array.isArray(body) && body.some((each: unknown) => isJSONRPCRequest(each) && each.method === "initialize");

const isSubscription = (body: unknown): boolean =>
  typeof body === "object" && body !== null && "method" in body && body.method === "subscriptions/listen";
