import type { Tool } from "@modelcontextprotocol/server";
import { isOffered, type Operation } from "../contract/operation.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { argumentsSchema, resultSchema } from "./tool-schema.ts";

/** Where a call says its idempotency key: in its `_meta`, under this name. */
export const idempotencyKeyName = "svc/idempotency-key";

/** Those that talk to git hosts or to a model; the others stay within the service. */
const reachingOut: readonly string[] = [
  "run_task",
  "prepare_worktree",
  "agent_completions",
] satisfies (keyof Operations)[];

const toolOf = (name: string, operation: Operation): Tool => ({
  name,
  title: operation.title,
  description: operation.errors.includes("idempotency_conflict")
    ? `${operation.summary} To be able to ask again safely, put a key of your own into the call's _meta as ${idempotencyKeyName}: the same key and arguments give the same answer.`
    : operation.summary,
  inputSchema: argumentsSchema(operation.input, operation.mcpOmit ?? []),
  outputSchema: resultSchema(operation.output),
  annotations: {
    title: operation.title,
    readOnlyHint: operation.annotations.readOnly,
    destructiveHint: operation.annotations.destructive,
    idempotentHint: operation.annotations.idempotent,
    openWorldHint: reachingOut.includes(name),
  },
});

/** Every operation that a service with these parts has as a tool, in the registry's order. The schemas are costly: to be made once. */
export const toolsOf = (parts: { agent: boolean }): Tool[] =>
  Object.entries<Operation>(operations)
    .filter(([, operation]) => isOffered(operation, parts))
    .map(([name, operation]) => toolOf(name, operation));
