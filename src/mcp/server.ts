import {
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { ServiceError } from "../contract/errors.ts";
import { isOffered } from "../contract/operation.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { agentModeOff } from "../http/reply.ts";
import { nearest } from "../lib/nearest.ts";
import { failed, type Answer, type Answered } from "./answer.ts";
import { createCallCounts, type CallCount, type CallLimits } from "./calls-under-way.ts";
import { instructions } from "./instructions.ts";
import { createProgress } from "./progress.ts";
import { idempotencyKeyName, toolsOf } from "./tools.ts";

/** On whose behalf a server works: a request on /mcp, a session on /sse, or the process at the other end of stdio. */
export type Caller = {
  principal: string;
  requestId: string;
  /** Told of each tool call, for the log. */
  note: (call: { tool: string; code: string; tool_ms: number }) => void;
  /** Its calls come in one request, and one response has the answers to all. */
  isBatch?: boolean;
};

/** Makes the MCP server for one caller; it is connected once and thrown away. */
export type NewServer = (caller: Caller) => McpServer;

/** What the server says of itself. */
export type Service = { name: string; title: string; version: string };

type Dependencies = {
  answer: Answer;
  service: Service;
  /** What the service has: the tools of other parts are not offered. */
  parts: { agent: boolean };
  limits?: CallLimits;
};

/** The MCP server of the product: every operation of the registry as a tool. */
export const createServerFactory = ({ answer, service, parts, limits }: Dependencies): NewServer => {
  const tools = toolsOf(parts);
  const names = tools.map(({ name }) => name);
  const list = { tools };
  const newCount = createCallCounts(limits);

  return (caller) => {
    const mcp = new McpServer(service, { instructions });
    // Below the level of `registerTool`: that would hold every result to its schema once more, and tell faults of the
    // arguments in words of its own.
    const { server } = mcp;
    const count = newCount();
    let room = maxAnswer;
    server.registerCapabilities({ tools: { listChanged: false } });
    server.setRequestHandler("tools/list", () => list);
    server.setRequestHandler("tools/call", async ({ params }, context): Promise<CallToolResult> => {
      if (!isOperation(params.name)) throw unknownTool(params.name, names);
      if (!isOffered(operations[params.name], parts)) throw toolOff(params.name);
      const started = performance.now();
      let answered = await call({ answer, count, caller }, params.name, params.arguments ?? {}, context);
      let text = JSON.stringify(answered.body);
      if (text.length > room) {
        answered = failed(tooLong);
        text = JSON.stringify(answered.body);
      } else if (caller.isBatch === true) room -= text.length;
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

/** Characters of JSON that one call, or all calls of a batch, are answered with; each is sent twice, as text and structured. */
const maxAnswer = 32_000_000;

const tooLong = new ServiceError(
  "invalid_request",
  `The answer, with those to the same batch, has more than ${maxAnswer.toLocaleString("en")} characters; ask for less at a time`,
);

type Serving = { answer: Answer; count: CallCount; caller: Caller };

const call = async (
  { answer, count, caller }: Serving,
  name: keyof Operations,
  given: Record<string, unknown>,
  { mcpReq }: ServerContext,
): Promise<Answered> => {
  const full = count.enter();
  if (full !== null) return failed(full);
  const { progressToken, [idempotencyKeyName]: key } = mcpReq._meta ?? {};
  const progress =
    progressToken === undefined
      ? undefined
      : createProgress((note) =>
          mcpReq.notify({ method: "notifications/progress", params: { progressToken, ...note } }),
        );
  try {
    return await answer(name, given, {
      ...caller,
      signal: mcpReq.signal,
      progress: progress?.tell,
      // Asking an idempotent operation twice is harmless anyway: a key has no meaning there.
      idempotencyKey:
        operations[name].annotations.idempotent || typeof key !== "string" ? undefined : key || undefined,
    });
  } finally {
    progress?.stop();
    count.leave();
  }
};

const resultOf = ({ body, code }: Answered, text: string): CallToolResult => ({
  content: [{ type: "text", text }],
  structuredContent: body,
  ...((code !== null || hasFailed(body)) && { isError: true }),
});

/** The call was answered, but what it asked for has come to nothing. */
const hasFailed = ({ success }: Answered["body"]): boolean => success === false;

const codeOf = ({ body, code }: Answered): string =>
  code ?? (!hasFailed(body) ? "ok" : typeof body["code"] === "string" ? body["code"] : "failed");

const isOperation = (name: string): name is keyof Operations => Object.hasOwn(operations, name);

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
