import { z } from "zod";

/**
 * A caller's value as the schema takes it. Clients write null for what they do not give, and numbers and booleans as
 * text; an address has nothing but text.
 *
 * | value | becomes |
 * |---|---|
 * | a field that is null, where the schema takes no null | left out: its default holds |
 * | digits as text, where the schema wants a number | the number |
 * | `"true"`, `"false"`, where the schema wants a boolean | the boolean |
 * | anything else | stays as it is: the schema says what is wrong with it |
 */
export const lenient = (schema: z.core.$ZodType, value: unknown): unknown => {
  const { def } = innermost(schema)._zod;
  if (typeof value === "string") return ofText(schema, value);
  if (Array.isArray(value))
    return def.type === "array" ? value.map((item) => lenient((def as ArrayDef).element, item)) : value;
  if (def.type !== "object" || typeof value !== "object" || value === null) return value;
  const { shape } = def as z.core.$ZodObjectDef;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, field]): [string, unknown][] => {
      const inner = Object.hasOwn(shape, name) ? shape[name] : undefined;
      if (inner === undefined) return [[name, field]];
      return field === null && !z.safeParse(inner, null).success ? [] : [[name, lenient(inner, field)]];
    }),
  );
};

const ofText = (schema: z.core.$ZodType, text: string): unknown => {
  const { def } = innermost(schema)._zod;
  if (def.type === "union" && !z.safeParse(schema, text).success)
    return def.options.map((option) => lenient(option, text)).find((each) => each !== text) ?? text;
  if (def.type === "boolean") return text === "true" || (text === "false" ? false : text);
  return def.type === "number" && plainNumber.test(text) ? exact(Number(text)) : text;
};

type ArrayDef = z.core.$ZodArrayDef;

/** The schema below its defaults, and below whether it takes null or nothing. */
const innermost = (schema: z.core.$ZodType): z.core.$ZodTypes => {
  let inner = schema as z.core.$ZodTypes;
  while ("innerType" in inner._zod.def) inner = inner._zod.def.innerType as z.core.$ZodTypes;
  return inner;
};

/** `Number` would also take `1e2`, ` 5` and `0x10`. */
const plainNumber = /^-?(0|[1-9]\d*)(\.\d+)?$/;

/** A number that is too large to be exact exceeds the field's limit too, whose error names the limit. */
const exact = (value: number): number =>
  Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, value));
