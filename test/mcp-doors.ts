import {
  Client,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/client/validators/ajv";
import type { Operation } from "../src/contract/operation.ts";
import { operations } from "../src/contract/operations.ts";
import { afterFile } from "./cleanup.ts";
import type { Door } from "./doors.ts";
import { svcProgram, type Service } from "./service-process.ts";

type Era = "2026-07-28" | "2025-11-25";

/**
 * A door that an official client goes through, connected once per service and kept: a client does not connect anew for
 * each call either.
 */
const mcpDoor = (name: string, era: Era, transport: (service: Service) => Transport): Door => {
  const clients = new WeakMap<Service, Promise<Client | null>>();
  const clientOf = (service: Service): Promise<Client | null> => {
    const known = clients.get(service) ?? connected(transport(service), era);
    clients.set(service, known);
    return known;
  };
  return {
    name: `MCP ${name}, ${era}`,
    ask: async (service, { operation, input, idempotencyKey }) => {
      const { mcp, mcpOmit = [] }: Operation = operations[operation];
      if (mcp === false) return null;
      const client = await clientOf(service);
      if (client === null || mcpOmit.some((omitted) => omitted in input)) return null;
      const result = await client.callTool({
        name: operation,
        arguments: input,
        ...(idempotencyKey !== undefined && { _meta: { "svc/idempotency-key": idempotencyKey } }),
      });
      return { body: structured(result) };
    },
  };
};

/** Schemas are the same at every door, and are compiled once. */
const compiled = new Map<string, ReturnType<AjvJsonSchemaValidator["getValidator"]>>();
const ajv = new AjvJsonSchemaValidator();
const jsonSchemaValidator: Pick<AjvJsonSchemaValidator, "getValidator"> = {
  getValidator: (schema) => {
    const text = JSON.stringify(schema);
    const known = compiled.get(text) ?? ajv.getValidator(schema);
    compiled.set(text, known);
    return known as never;
  },
};

/** Null: a service that shuts down takes no new sessions. */
const connected = async (transport: Transport, era: Era): Promise<Client | null> => {
  const mode = era === "2025-11-25" ? "legacy" : { pin: era };
  const client = new Client(
    { name: "same-answer", version: "1" },
    { versionNegotiation: { mode }, jsonSchemaValidator },
  );
  try {
    await client.connect(transport);
  } catch (error) {
    if (error instanceof Error && /\b503\b/.test(error.message)) return null;
    throw error;
  }
  afterFile(() => client.close());
  // From now on the client holds each result to the tool's schema.
  await client.listTools();
  return client;
};

type Result = Awaited<ReturnType<Client["callTool"]>>;

/** The structured body, which the text must repeat, and `isError` must not contradict. */
const structured = ({ content, structuredContent, isError = false }: Result): unknown => {
  const [text, ...more] = content;
  const body = structuredContent as { success: boolean };
  if (text?.type !== "text" || text.text !== JSON.stringify(body) || more.length > 0)
    throw new Error(`the text says something else: ${JSON.stringify(content)}`);
  if (isError === body.success) throw new Error(`isError is ${isError} for ${text.text}`);
  return body;
};

const streamable = ({ url }: Service) => new StreamableHTTPClientTransport(new URL(`${url}/mcp`));

const stdio = ({ env, home }: Service): Transport => {
  const [command, ...program] = svcProgram;
  return new StdioClientTransport({
    command,
    args: [...program, "serve"],
    env: { ...env, SERVICE_TRANSPORT: "stdio" },
    cwd: home,
    stderr: "ignore",
  });
};

export const mcpDoors: readonly Door[] = [
  mcpDoor("/mcp", "2026-07-28", streamable),
  mcpDoor("/mcp", "2025-11-25", streamable),
  mcpDoor("/sse", "2025-11-25", ({ url }) => new SSEClientTransport(new URL(`${url}/sse`))),
  // Beside the running service: it passes on what it is asked.
  mcpDoor("stdio", "2026-07-28", stdio),
];
