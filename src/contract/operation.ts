import type { z } from "zod";
import type { ErrorCode } from "./errors.ts";

/** How an operation is called in a shell. */
export type CommandForm = {
  /** One word, or two: `worktrees list`. Operations with the same name differ in `args`: those that are given decide. */
  name: string;
  /** Parameters that are arguments, in order; all others are flags. */
  args?: readonly string[];
  /** Heading in `--help`. */
  group: string;
};

/** One operation as MCP has it. */
export type McpOperation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> = {
  title: string;
  summary: string;
  input: Input;
  output: Output;
  /** Parameters that MCP clients are not offered. */
  mcpOmit?: readonly string[];
  /** False: there is no MCP tool for it. */
  mcp?: false;
  /** The command that makes this one call; its arguments and flags come from `input`. Absent: none. */
  command?: CommandForm;
  /** Offered only when this part of the service is on. */
  part?: "agent";
  /** `openWorld`: it talks to git hosts or to a model. */
  annotations: { readOnly: boolean; destructive: boolean; idempotent: boolean; openWorld?: true };
  /** What a caller with limited rights needs; absent: nothing. */
  scope?: string;
  /** Codes this operation can fail with, besides those every request can (401, 413, 500 …). */
  errors: readonly ErrorCode[];
};

/** One operation of the service. Routes, OpenAPI, MCP tools and the typed client are loops over `operations.ts`. */
export type Operation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> = McpOperation<Input, Output> & {
  /** Overrides the examples of the output's fields. */
  example?: object;
  /** REST binding. Parameters outside the path come from the JSON body (post, put) or the query; with `query` from either. */
  http: {
    method: "get" | "post" | "put" | "delete";
    path: string;
    query?: true;
    /** The body may also be multipart/form-data: a part `job` with the JSON, a part `attach` for each of `options.files`. */
    attach?: true;
    deprecated?: boolean;
    /** Status of an answer that is no error; absent: always 200. */
    status?: (output: Record<string, unknown>) => 200 | 202 | 500;
  };
};

export const operation = <Input extends z.ZodObject, Output extends z.ZodObject>(
  definition: Operation<Input, Output>,
): Operation<Input, Output> => definition;

/** Whether the parameters that are not in the path are in the JSON body. */
export const hasBody = ({ http: { method, query } }: Operation): boolean =>
  (method === "post" || method === "put") && query !== true;

/** The registry of a program: its operations by name, which is that of the MCP tool and of the client's method. */
export type Definitions = Record<string, McpOperation>;

/** Names of the MCP tools, in order. */
export const toolNamesOf = <Ops extends Definitions>(operations: Ops): (keyof Ops & string)[] =>
  Object.keys(operations).filter((name) => operations[name]?.mcp !== false);

export const isOffered = ({ part }: McpOperation, parts: { agent: boolean }): boolean =>
  part === undefined || parts[part];

/** A request's data besides its input. */
export type RequestContext = {
  /** Aborted when the caller disconnects. */
  signal: AbortSignal;
  /** Value of the `Idempotency-Key` header, if any. */
  idempotencyKey?: string | undefined;
  /** Stable digest of the caller's API key; `open` when no keys are configured. Never the key itself. */
  principal: string;
  /** Sends a waiting caller a few words about the progress. Absent: the caller did not ask for it. */
  progress?: ((message: string) => void) | undefined;
};

/** One handler per operation: a missing or mistyped one does not compile. */
export type Handlers<Ops extends Definitions> = {
  [Name in keyof Ops]: (
    input: z.output<Ops[Name]["input"]>,
    context: RequestContext,
  ) => Promise<z.output<Ops[Name]["output"]>>;
};

/** What an operation answers. */
export type Answer<Of extends McpOperation> = z.output<Of["output"]>;
