import type { z } from "zod";
import type { ErrorCode } from "./errors.ts";

/**
 * One thing that can be asked of the service. REST routes, the OpenAPI document, MCP tools and the typed client are
 * loops over these: an operation is added in `operations.ts` and nowhere else.
 */
export type Operation<Input extends z.ZodObject = z.ZodObject, Output extends z.ZodObject = z.ZodObject> = {
  /** Name of the MCP tool and of the client's method. */
  name: string;
  title: string;
  summary: string;
  input: Input;
  output: Output;
  /** Where the example of an answer differs from what the fields' own examples make up. */
  example?: object;
  /** Parameters that MCP clients are not offered. */
  mcpOmit?: readonly string[];
  /** REST binding. Path parameters (`{job_id}`) are taken from the path, the rest from the query (get, delete) or the JSON body (post). */
  http: {
    method: "get" | "post" | "delete";
    path: string;
    deprecated?: boolean;
    /** Status of an answer that is none of the errors; absent: always 200. */
    status?: (output: Record<string, unknown>) => 200 | 202 | 500;
  };
  /** Only there when this part of the service is on. */
  part?: "agent";
  annotations: { readOnly: boolean; destructive: boolean; idempotent: boolean };
  /** Codes this operation can fail with, besides those every request can (401, 413, 500 …). */
  errors: readonly ErrorCode[];
};

export const operation = <Input extends z.ZodObject, Output extends z.ZodObject>(
  definition: Operation<Input, Output>,
): Operation<Input, Output> => definition;

/** The operations that a service with these parts has. */
export const isOffered = ({ part }: Operation, parts: { agent: boolean }): boolean =>
  part === undefined || parts[part];

/** What a door knows of the request besides its input. */
export type RequestContext = {
  /** Aborted when the caller is gone. */
  signal: AbortSignal;
  /** Value of the `Idempotency-Key` header, if any. */
  idempotencyKey?: string | undefined;
  /** Stable digest of the caller's API key; `open` when no keys are configured. Never the key itself. */
  principal: string;
  /** Tells a caller that waits what is going on, a few words each time; left out when the caller did not ask for it. */
  progress?: ((message: string) => void) | undefined;
};

type Definitions = Record<string, Operation>;

/** One handler per operation: a missing or mistyped one does not compile. */
export type Handlers<Ops extends Definitions> = {
  [Name in keyof Ops]: (
    input: z.output<Ops[Name]["input"]>,
    context: RequestContext,
  ) => Promise<z.output<Ops[Name]["output"]>>;
};
