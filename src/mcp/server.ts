import {
  isJSONRPCRequest,
  McpServer,
  type Tool,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { ServiceError } from "../contract/errors.ts";
import { isOffered, type Definitions, type McpOperation } from "../contract/operation.ts";
import { agentModeOff } from "../http/route.ts";
import { nearest } from "../lib/nearest.ts";
import { redactDeep } from "../lib/redact.ts";
import { wellFormed } from "../lib/well-formed.ts";
import { failed, type Answer, type Answered } from "./answer.ts";
import { idempotencyKeyName, toolsOf } from "./tools.ts";

/** Whom a server answers: a request on /mcp, a session on /sse, or the process at the other end of stdio. */
export type Caller = {
  principal: string;
  /** Scopes of the caller; null: everything. */
  scopes: readonly string[] | null;
  requestId: string;
  /** Adds a tool call to the log. */
  note: (call: { tool: string; code: string; tool_ms: number }) => void;
  /** All its calls are one request, whose response has all answers. */
  isBatch?: boolean;
};

/** Makes the MCP server of one caller. It is connected once. */
export type NewServer = (caller: Caller) => McpServer;

/** A program as MCP clients see it. */
export type McpProgram = {
  service: { name: string; title: string; version: string };
  /** Sent to a client's model; each tool describes itself. */
  instructions: string;
  operations: Definitions;
  /** Tools of parts that are off are not offered. */
  parts: { agent: boolean };
};

type Dependencies = {
  program: McpProgram;
  answer: Answer;
  /** How many calls may be in progress at a time. A waiting call takes some 25 KB: the default is 50 MB. */
  maxCalls?: number;
};

/** MCP servers of a program: every operation of its registry is a tool. */
export const createServerFactory = ({ program, answer, maxCalls = 2000 }: Dependencies): NewServer => {
  const { service, instructions, operations, parts } = program;
  // Made for the first client that asks: the schemas take 15 ms of a start.
  let made: Tool[] | undefined;
  const tools = (): Tool[] => (made ??= toolsOf(operations, parts));
  const running: Running = { calls: 0, most: maxCalls };

  return (caller) => {
    const mcp = new McpServer(service, { instructions });
    // `registerTool` would check every result against its schema again, and report bad arguments in words of its own.
    const { server } = mcp;
    let charactersLeft = maxAnswer;
    server.registerCapabilities({ tools: { listChanged: false } });
    server.setRequestHandler("tools/list", () => ({ tools: tools() }));
    server.setRequestHandler("tools/call", async ({ params }, context): Promise<CallToolResult> => {
      const operation = Object.hasOwn(operations, params.name) ? operations[params.name] : undefined;
      if (operation === undefined || operation.mcp === false)
        throw unknownTool(
          params.name,
          tools().map(({ name }) => name),
        );
      if (!isOffered(operation, parts)) throw toolOff(params.name);
      const started = performance.now();
      let answered = await call({ answer, running, caller, operation }, params, context);
      answered = { ...answered, body: redactDeep(answered.body, wellFormed) };
      let text = JSON.stringify(answered.body);
      if (text.length > charactersLeft) {
        answered = failed(tooLong);
        text = JSON.stringify(answered.body);
      } else if (caller.isBatch === true) charactersLeft -= text.length;
      caller.note({
        tool: params.name,
        code: codeOf(answered),
        tool_ms: Math.round((performance.now() - started) * 10) / 10,
      });
      return resultOf(answered, text);
    });
    return mcp;
  };
};

/** Limit for the JSON of one call or of a batch, in characters. Each answer is sent twice, as text and structured. */
const maxAnswer = 32_000_000;

const tooLong = new ServiceError(
  "invalid_request",
  `The answers to this request have more than ${maxAnswer.toLocaleString("en")} characters; ask for less at a time`,
);

type Running = { calls: number; readonly most: number };
type Call = { answer: Answer; running: Running; caller: Caller; operation: McpOperation };

const call = async (
  { answer, running, caller, operation }: Call,
  { name, arguments: given = {} }: { name: string; arguments?: Record<string, unknown> | undefined },
  { mcpReq }: ServerContext,
): Promise<Answered> => {
  const refused =
    scopeFault(name, operation, caller.scopes) ?? (running.calls >= running.most ? atLimit(running) : null);
  if (refused !== null) return failed(refused);
  const { progressToken, [idempotencyKeyName]: key } = mcpReq._meta ?? {};
  let [progress, isAnswered] = [0, false];
  const report = (message: string): void => {
    // No message may follow the result.
    if (isAnswered || progressToken === undefined) return;
    const params = { progressToken, progress: (progress += 1), message };
    // The caller may have disconnected.
    mcpReq.notify({ method: "notifications/progress", params }).catch(() => undefined);
  };
  running.calls += 1;
  try {
    return await answer(name, given, {
      ...caller,
      signal: mcpReq.signal,
      progress: progressToken === undefined ? undefined : report,
      // Repeating an idempotent operation is harmless: it needs no key.
      idempotencyKey:
        operation.annotations.idempotent || typeof key !== "string" ? undefined : key || undefined,
    });
  } finally {
    isAnswered = true;
    running.calls -= 1;
  }
};

const atLimit = ({ most }: Running): ServiceError =>
  new ServiceError(
    "queue_full",
    `${most} calls are running, which is the limit; ask again when some have ended`,
  );

/** Why a caller with these scopes may not use the operation; null: it may. */
const scopeFault = (name: string, { scope }: McpOperation, scopes: Caller["scopes"]): ServiceError | null =>
  scope === undefined || scopes === null || scopes.includes(scope)
    ? null
    : new ServiceError(
        "insufficient_scope",
        `${name} needs the scope ${scope}; ask for it when you sign in`,
        {
          // A client asks for just these, and would lose what it has.
          scope: [...scopes, scope].join(" "),
        },
      );

/** Clients of OAuth learn from the status, before any call has begun, that they must sign in for more. */
export const checkScopes = (body: unknown, operations: Definitions, scopes: Caller["scopes"]): void => {
  if (scopes === null) return;
  for (const message of Array.isArray(body) ? body : [body]) {
    if (!isJSONRPCRequest(message) || message.method !== "tools/call") continue;
    const name = String(message.params?.["name"]);
    const operation = Object.hasOwn(operations, name) ? operations[name] : undefined;
    const fault = operation === undefined ? null : scopeFault(name, operation, scopes);
    if (fault !== null) throw fault;
  }
};

const resultOf = ({ body, code }: Answered, text: string): CallToolResult => ({
  content: [{ type: "text", text }],
  structuredContent: body,
  ...((code !== null || hasFailed(body)) && { isError: true }),
});

/** The operation answered, and reports a failure: a failed completion. */
const hasFailed = ({ success }: Answered["body"]): boolean => success === false;

const codeOf = ({ body, code }: Answered): string =>
  code ?? (!hasFailed(body) ? "ok" : typeof body["code"] === "string" ? body["code"] : "failed");

const toolOff = (name: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, agentModeOff(`The tool ${name}`).message);

const unknownTool = (name: string, names: readonly string[]): ProtocolError => {
  const near = nearest(name, names);
  const way = near === undefined ? `the tools are ${names.join(", ")}` : `did you mean ${near}?`;
  return new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    `There is no tool ${JSON.stringify(name.slice(0, 100))}; ${way}`,
  );
};
