import { z } from "zod";
import type { ErrorCode } from "./errors.ts";
import type { CommandForm, McpOperation } from "./operation.ts";

/** What the tools of the transcript service have in common. */

export const instant = (what: string) =>
  z
    .string()
    .refine(
      (text) =>
        text === "" || z.iso.datetime({ offset: true, local: true }).or(z.iso.date()).safeParse(text).success,
      "must be a time such as 2026-03-02T09:15:00Z, or a date",
    )
    .default("")
    .describe(`${what}, ISO 8601, inclusive; without an offset: UTC; empty: no bound`);

export const project = z
  .string()
  .max(4096)
  .default("")
  .describe("Only projects whose path contains this text");
/** Any text: one that is no id is not found. */
export const SessionId = z.string().describe("Id of the session");
export const limit = (value: number, max = 200) =>
  z.int().min(1).max(max).default(value).describe("How many at most");
export const offset = z.int().min(0).default(0).describe("How many to skip");
export const count = z.int().describe("How many are in this answer");
export const total = z.int().describe("How many there are in all");
export const time = z.string().nullable().describe("ISO 8601, UTC; null: unknown");

const success = z.literal(true);
const collecting = z
  .literal(true)
  .optional()
  .describe("The files are still being read: there may be more than the answer says");
const ofFiles = z.int().optional().describe("Bytes of the files, as long as they are being read");
const hint = z.string().optional().describe("How to read on");

type Definition<Input extends z.ZodRawShape, Output extends z.ZodRawShape, Cut> = {
  title: string;
  summary: string;
  input: Input;
  output: Output;
  /** `z.boolean()`: the answer always says whether it was cut. */
  truncated?: Cut;
  errors?: readonly ErrorCode[];
  /** What the tool does besides reading. */
  annotations?: Partial<McpOperation["annotations"]>;
  scope?: string;
  command?: CommandForm;
};

/** Unless its annotations say otherwise, a tool only reads. */
export const tool = <
  Input extends z.ZodRawShape,
  Output extends z.ZodRawShape,
  Cut extends z.ZodType = z.ZodOptional<z.ZodBoolean>,
>({
  input,
  output,
  truncated: isCut,
  annotations,
  scope = "read",
  errors = [],
  ...rest
}: Definition<Input, Output, Cut>) => ({
  ...rest,
  input: z.strictObject(input),
  output: z.object({
    success,
    collecting,
    collected_bytes: ofFiles,
    total_bytes: ofFiles,
    ...output,
    truncated: (isCut ?? z.boolean().optional()).describe(
      "The answer was cut to stay readable; `hint` says how to read on",
    ) as Cut,
    hint,
  }),
  annotations: { readOnly: true, destructive: false, idempotent: true, ...annotations },
  scope,
  errors: ["invalid_request", "store_unavailable", ...errors] as readonly ErrorCode[],
});
