import type { Tool } from "@modelcontextprotocol/server";
import { z } from "zod";
import { Failure } from "../contract/errors.ts";
import { isOffered, toolNamesOf, type Definitions, type McpOperation } from "../contract/operation.ts";

/** The name of a call's idempotency key in its `_meta`. */
export const idempotencyKeyName = "svc/idempotency-key";

const toolOf = (name: string, operation: McpOperation): Tool => ({
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
    openWorldHint: operation.annotations.openWorld === true,
  },
});

/** The tools of a program with these parts, in the registry's order. The schemas are costly: call this once. */
export const toolsOf = (operations: Definitions, parts: { agent: boolean }): Tool[] =>
  toolNamesOf(operations).flatMap((name) => {
    const operation = operations[name];
    return operation !== undefined && isOffered(operation, parts) ? [toolOf(name, operation)] : [];
  });

type JsonSchema = { type: "object"; [key: string]: unknown };

/** `omit`: parameters that are not offered. */
const argumentsSchema = (input: z.ZodObject, omit: readonly string[]): JsonSchema => {
  const shape = Object.entries(input.shape).filter(([name]) => !omit.includes(name));
  return written(z.strictObject(Object.fromEntries(shape)), "input");
};

/**
 * The schema of a tool's structured result. It covers failures too: the official client of the first generation checks
 * every structured result against it, also that of an error.
 */
const resultSchema = (output: z.ZodObject): JsonSchema => ({
  ...written(z.union([output, Failure]), "output"),
  type: "object",
});

const written = (schema: z.ZodType, io: "input" | "output"): JsonSchema => {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io,
    override: ({ jsonSchema }) => {
      // A client that checks answers must accept fields that are added later.
      if (io === "output") delete jsonSchema.additionalProperties;
      // Examples are for the OpenAPI document.
      delete jsonSchema.example;
      // Older validators take `id` for a keyword.
      delete jsonSchema.id;
      // zod adds the bounds of exact numbers, which say nothing about the field.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  return JSON.parse(JSON.stringify(rest), withSingleType) as JsonSchema;
};

/** Turns `type: ["string", "null"]` into a choice of two schemas: not every client knows a list of types. */
const withSingleType = (_key: string, value: unknown): unknown => {
  if (typeof value !== "object" || value === null || !("type" in value) || !Array.isArray(value.type))
    return value;
  const { type: types, ...rest } = value;
  return { ...rest, anyOf: types.map((type: unknown) => ({ type })) };
};
