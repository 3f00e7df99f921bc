import { z } from "zod";
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiParameters,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponseObject,
  type ZodOpenApiResponsesObject,
} from "zod-openapi";
import { Failure, statusOf, unauthorizedBody, type ErrorCode } from "../contract/errors.ts";
import { JobEvent } from "../contract/event.ts";
import { JobChange } from "../contract/job-list.ts";
import { hasBody, isOffered, type Operation } from "../contract/operation.ts";
import { operations } from "../contract/operations.ts";
import { pathParameters, type Route } from "./route.ts";

type Described = {
  name: string;
  version: string;
  keyed: boolean;
  parts: { agent: boolean };
  /** Routes with a description (`openapi`) are included. */
  routes: readonly Route[];
};

/** The OpenAPI 3.1 document of the REST door, as JSON text. */
export const openapiDocument = ({ name, version, keyed, parts, routes }: Described): string =>
  JSON.stringify(
    createDocument({
      openapi: "3.1.1",
      info: {
        title: name,
        version,
        description:
          "Runs a coding-agent CLI on a git repository as a background job and hands back a branch or pull request.",
        license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      },
      // Relative to the address of the document.
      servers: [{ url: "." }],
      tags: [...new Set(Object.values(tags))].map((tag) => ({ name: tag })),
      security: [{ header: [] }, { bearer: [] }, { query: [] }, ...(keyed ? [] : [{}])],
      paths: { ...operationPaths(parts), ...routePaths(routes) },
      components: { securitySchemes, schemas: { JobEvent, JobChange } },
    }),
  );

const securitySchemes = {
  header: { type: "apiKey", in: "header", name: "X-Api-Key" },
  bearer: { type: "http", scheme: "bearer" },
  query: {
    type: "apiKey",
    in: "query",
    name: "api_key",
    description: "For clients that cannot set headers; masked in the log",
  },
} as const;

const routePaths = (routes: readonly Route[]): ZodOpenApiPathsObject => {
  const paths: ZodOpenApiPathsObject = {};
  for (const { method, path, openapi } of routes)
    if (openapi !== undefined)
      paths[path] = { ...paths[path], [method]: { tags: [tagOf(path)], ...openapi } };
  return paths;
};

const operationPaths = (parts: { agent: boolean }): ZodOpenApiPathsObject => {
  const paths: ZodOpenApiPathsObject = {};
  for (const [name, operation] of Object.entries<Operation>(operations)) {
    if (!isOffered(operation, parts)) continue;
    const { method, path } = operation.http;
    paths[path] = { ...paths[path], [method]: described(name, operation) };
  }
  return paths;
};

export const agentModeTag = "Agent mode";

/** The groups of the page, in their order, by the first part of a path. */
const tags: Record<string, string> = {
  jobs: "Jobs",
  worktrees: "Worktrees",
  disk: "Worktrees",
  environments: "Worktrees",
  profiles: "Profiles",
  usage: "Usage",
  completions: agentModeTag,
  agent: agentModeTag,
  v1: agentModeTag,
  otlp: "Telemetry",
  transcripts: "Transcripts",
  "": "Service",
};

const tagOf = (path: string): string => tags[path.split("/")[1] ?? ""] ?? "Service";

const described = (name: string, operation: Operation): ZodOpenApiOperationObject => {
  const { http, input, output } = operation;
  const path = pathParameters(http.path);
  const rest = Object.keys(input.shape).filter((name) => !path.includes(name));
  const requestParams: ZodOpenApiParameters = { path: picked(input, path) };
  const takesBody = hasBody(operation) || http.query === true;
  if (!hasBody(operation)) requestParams.query = picked(input, rest);
  if (operation.errors.includes("idempotency_conflict"))
    requestParams.header = z.object({ "Idempotency-Key": idempotencyKey });
  const errors = errorResponses([
    ...(takesBody ? (["unsupported_content_type", "body_too_large"] as const) : []),
    ...(["job_id", "worktree_id"].some((name) => name in input.shape) ? (["ambiguous_id"] as const) : []),
    ...operation.errors,
  ]);
  return {
    operationId: name,
    summary: operation.title,
    description: operation.summary,
    ...(http.deprecated === true && { deprecated: true }),
    tags: [tagOf(http.path)],
    requestParams,
    ...(takesBody && {
      requestBody: {
        required: hasBody(operation),
        content: {
          "application/json": {
            schema: picked(input, rest).strict(),
            example: exampleOf(picked(input, rest)),
          },
          ...(http.attach && { "multipart/form-data": attached }),
        },
      },
    }),
    responses: {
      "200": {
        description: "Done",
        content: { "application/json": { schema: output, example: exampleOf(output, operation.example) } },
      },
      ...errors,
      ...(http.status !== undefined && otherAnswers(output, errors["500"])),
    },
  };
};

/** An example of a schema's value, of its fields' examples; `given` overrides them. Without one: null, or left out. */
export const exampleOf = (schema: z.core.$ZodType, given?: unknown): unknown => {
  const { def } = schema._zod as z.core.$ZodTypes["_zod"];
  const own = given === undefined ? z.globalRegistry.get(schema)?.example : given;
  if (def.type === "literal") return def.values[0];
  if (def.type === "nullable")
    return own === undefined || own === null ? null : exampleOf(def.innerType, own);
  if (def.type === "array") {
    const items = (own ?? [undefined]) as unknown[];
    return items.map((item) => exampleOf(def.element, item)).filter((item) => item !== undefined);
  }
  if (def.type !== "object") return own;
  const instead = (own ?? {}) as Record<string, unknown>;
  const fields = Object.entries(def.shape).map(([name, field]) => [name, exampleOf(field, instead[name])]);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
};

/** The other body of an operation with `attach`. */
const attached = {
  schema: z.object({
    job: z
      .string()
      .meta({ description: "The JSON object, without options.files", example: '{"task": "Fix it"}' }),
    attach: z.array(z.string().meta({ format: "binary" })).describe("options.files, one part each"),
  }),
};

/** For an operation that also answers with other statuses. */
const otherAnswers = (
  output: z.ZodObject,
  failed: ZodOpenApiResponsesObject[`${1 | 2 | 3 | 4 | 5}${string}`] | undefined,
): ZodOpenApiResponsesObject => ({
  "202": {
    description: "Accepted: the answer will be at `poll_url`",
    content: { "application/json": { schema: output } },
  },
  "500": {
    description: `${(failed as ZodOpenApiResponseObject).description}; or what was asked for has failed`,
    content: { "application/json": { schema: z.union([output, Failure]) } },
  },
});

const idempotencyKey = z
  .string()
  .max(255)
  .optional()
  .describe("The same key with the same body returns the same job; with a different body the status is 409");

const picked = (input: z.ZodObject, names: readonly string[]): z.ZodObject =>
  z.object(Object.fromEntries(Object.entries(input.shape).filter(([name]) => names.includes(name))));

/** Failures that every request can have. */
const always: readonly ErrorCode[] = [
  "invalid_request",
  "forbidden_host",
  "forbidden_origin",
  "internal",
  "store_unavailable",
  "starting",
];

/** The failures of an operation by status. Several codes can share a status. `schema`: absent for that of the contract. */
export const errorResponses = (
  codes: readonly ErrorCode[],
  schema?: z.ZodType,
): ZodOpenApiResponsesObject => {
  const byStatus = Object.groupBy([...new Set([...codes, ...always])], (code) => statusOf[code]);
  const responses = Object.entries(byStatus).map(
    ([status, group]) => [status, failure(status, group, schema)] as const,
  );
  return { ...Object.fromEntries(responses), "401": unauthorized };
};

const failure = (
  status: string,
  codes: readonly ErrorCode[],
  schema: z.ZodType = Failure.extend({ code: z.enum(codes) }).meta({ id: undefined }),
): ZodOpenApiResponseObject => ({
  description: `${statusTitles[status] ?? "Failed"}: ${codes.join(", ")}`,
  ...(status === "503" && { headers: z.object({ "Retry-After": retryAfter }) }),
  content: { "application/json": { schema } },
});

const retryAfter = z.int().describe("Seconds to wait before the next try");

const unauthorized: ZodOpenApiResponseObject = {
  description: "The key is missing or not valid",
  content: {
    "application/json": {
      schema: z.object({ error: z.literal(unauthorizedBody.error) }),
      example: unauthorizedBody,
    },
  },
};

const statusTitles: Record<string, string> = {
  "400": "The request is not valid",
  "403": "The request comes from another origin or for another host",
  "404": "Not found",
  "409": "Conflict with an earlier request",
  "413": "Too large",
  "429": "The model's endpoint limits the rate",
  "500": "The service failed; see its log under the X-Request-Id of the answer",
  "502": "The model's endpoint refused or failed",
  "503": "Temporarily unavailable",
  "504": "It took too long",
};
