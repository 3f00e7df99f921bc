import { z } from "zod";
import { Failure } from "../contract/errors.ts";

export type JsonSchema = { type: "object"; [key: string]: unknown };

/** The JSON schema of a tool's arguments; `omit`: parameters that are not offered. */
export const argumentsSchema = (input: z.ZodObject, omit: readonly string[]): JsonSchema => {
  const shape = Object.entries(input.shape).filter(([name]) => !omit.includes(name));
  return written(z.strictObject(Object.fromEntries(shape)), "input");
};

/**
 * The JSON schema of a tool's structured result. It covers failures too: the official client of the first generation
 * holds every structured result to it, also that of an error.
 */
export const resultSchema = (output: z.ZodObject): JsonSchema => ({
  ...written(z.union([output, Failure]), "output"),
  type: "object",
});

const written = (schema: z.ZodType, io: "input" | "output"): JsonSchema => {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io,
    override: ({ jsonSchema }) => {
      // Fields may be added later: a client that checks answers must not refuse them for that.
      if (io === "output") delete jsonSchema.additionalProperties;
      // For people, in the OpenAPI document.
      delete jsonSchema.example;
      // Older validators take it for a keyword.
      delete jsonSchema.id;
      // The bounds of what a number can say exactly say nothing about the field.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  return JSON.parse(JSON.stringify(rest), oneTypeEach) as JsonSchema;
};

/** `type: ["string", "null"]` as a choice of two schemas: not every client knows a list of types. */
const oneTypeEach = (_key: string, value: unknown): unknown => {
  if (typeof value !== "object" || value === null || !("type" in value) || !Array.isArray(value.type))
    return value;
  const { type: types, ...rest } = value;
  return { ...rest, anyOf: types.map((type: unknown) => ({ type })) };
};
