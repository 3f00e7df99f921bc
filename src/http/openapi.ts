import { z } from "zod";
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiParameters,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponseObject,
  type ZodOpenApiResponsesObject,
} from "zod-openapi";
import { Failure } from "../contract/errors.ts";
import { JobEvent } from "../contract/event.ts";
import { isOffered, type Operation } from "../contract/operation.ts";
import { operations } from "../contract/operations.ts";
import { errorResponses } from "./openapi-errors.ts";
import { pathParameters, type Route } from "./route.ts";

type Described = {
  name: string;
  version: string;
  /** The service asks for a key. */
  keyed: boolean;
  parts: { agent: boolean };
  /** Those that say themselves what they are (`openapi`) are taken in. */
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
      // Relative: right for whatever host and path the document was fetched from.
      servers: [{ url: "." }],
      security: [{ header: [] }, { bearer: [] }, { query: [] }, ...(keyed ? [] : [{}])],
      paths: { ...operationPaths(parts), ...routePaths(routes) },
      components: { securitySchemes, schemas: { JobEvent } },
    }),
  );

const securitySchemes = {
  header: { type: "apiKey", in: "header", name: "X-Api-Key" },
  bearer: { type: "http", scheme: "bearer" },
  query: {
    type: "apiKey",
    in: "query",
    name: "api_key",
    description: "For where headers cannot be set; masked in the log",
  },
} as const;

const routePaths = (routes: readonly Route[]): ZodOpenApiPathsObject => {
  const paths: ZodOpenApiPathsObject = {};
  for (const { method, path, openapi } of routes)
    if (openapi !== undefined) paths[path] = { ...paths[path], [method]: openapi };
  return paths;
};

const operationPaths = (parts: { agent: boolean }): ZodOpenApiPathsObject => {
  const paths: ZodOpenApiPathsObject = {};
  for (const operation of Object.values<Operation>(operations)) {
    if (!isOffered(operation, parts)) continue;
    const { method, path } = operation.http;
    paths[path] = { ...paths[path], [method]: described(operation) };
  }
  return paths;
};

/** What agent mode adds stands together. */
export const agentModeTag = "Agent mode";

const described = (operation: Operation): ZodOpenApiOperationObject => {
  const { http, input, output } = operation;
  const path = pathParameters(http.path);
  const rest = Object.keys(input.shape).filter((name) => !path.includes(name));
  const requestParams: ZodOpenApiParameters = { path: picked(input, path) };
  if (http.method !== "post") requestParams.query = picked(input, rest);
  if (operation.errors.includes("idempotency_conflict"))
    requestParams.header = z.object({ "Idempotency-Key": idempotencyKey });
  const errors = errorResponses([
    ...(http.method === "post" ? (["unsupported_content_type", "body_too_large"] as const) : []),
    ...operation.errors,
  ]);
  return {
    operationId: operation.name,
    summary: operation.title,
    description: operation.summary,
    ...(http.deprecated === true && { deprecated: true }),
    ...(operation.part === "agent" && { tags: [agentModeTag] }),
    requestParams,
    ...(http.method === "post" && {
      requestBody: {
        required: true,
        content: {
          "application/json": {
            schema: picked(input, rest).strict(),
            example: exampleOf(picked(input, rest)),
          },
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

/**
 * The value that the examples of a schema's fields make up; `given` says what stands in their place. What has no example is
 * null where it may be, else left out; an array holds one example of its items.
 */
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

/** Of an operation that answers with other statuses too. */
const otherAnswers = (
  output: z.ZodObject,
  failed: ZodOpenApiResponsesObject[`${1 | 2 | 3 | 4 | 5}${string}`] | undefined,
): ZodOpenApiResponsesObject => ({
  "202": {
    description: "Accepted: `poll_url` is where the answer will be",
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
  .meta({ description: "The same key with the same body gives the same job; with another body it is a 409" });

const picked = (input: z.ZodObject, names: readonly string[]): z.ZodObject =>
  z.object(Object.fromEntries(Object.entries(input.shape).filter(([name]) => names.includes(name))));
