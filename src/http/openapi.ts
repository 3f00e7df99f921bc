import { z } from "zod";
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiParameters,
  type ZodOpenApiPathsObject,
} from "zod-openapi";
import { JobEvent } from "../contract/event.ts";
import type { Operation } from "../contract/operation.ts";
import { operations } from "../contract/operations.ts";
import { examples } from "./openapi-examples.ts";
import { errorResponses } from "./openapi-errors.ts";
import { eventsPath, statusPaths } from "./openapi-paths.ts";
import { pathParameters } from "./route.ts";

/** The OpenAPI 3.1 document of the REST door, as JSON text. `keyed`: the service asks for a key. */
export const openapiDocument = ({
  name,
  version,
  keyed,
}: {
  name: string;
  version: string;
  keyed: boolean;
}): string =>
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
      paths: { ...operationPaths(), ...eventsPath, ...statusPaths },
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

const operationPaths = (): ZodOpenApiPathsObject => {
  const paths: ZodOpenApiPathsObject = {};
  for (const operation of Object.values<Operation>(operations)) {
    const { method, path } = operation.http;
    paths[path] = { ...paths[path], [method]: described(operation) };
  }
  return paths;
};

type Example = { input: object; output: object };

const described = (operation: Operation): ZodOpenApiOperationObject => {
  const { http, input, output, annotations } = operation;
  const path = pathParameters(http.path);
  const rest = Object.keys(input.shape).filter((name) => !path.includes(name));
  const example = new Map(Object.entries<Example>(examples)).get(operation.name);
  const requestParams: ZodOpenApiParameters = { path: picked(input, path) };
  if (http.method !== "post") requestParams.query = picked(input, rest);
  if (!annotations.idempotent) requestParams.header = z.object({ "Idempotency-Key": idempotencyKey });
  return {
    operationId: operation.name,
    summary: operation.title,
    description: operation.summary,
    requestParams,
    ...(http.method === "post" && {
      requestBody: {
        required: true,
        content: { "application/json": { schema: picked(input, rest).strict(), example: example?.input } },
      },
    }),
    responses: {
      "200": {
        description: "Done",
        content: { "application/json": { schema: output, example: example?.output } },
      },
      ...errorResponses([
        "invalid_request",
        ...(http.method === "post" ? (["unsupported_content_type", "body_too_large"] as const) : []),
        ...operation.errors,
      ]),
    },
  };
};

const idempotencyKey = z
  .string()
  .max(255)
  .optional()
  .meta({ description: "The same key with the same body gives the same job; with another body it is a 409" });

const picked = (input: z.ZodObject, names: readonly string[]): z.ZodObject =>
  z.object(Object.fromEntries(Object.entries(input.shape).filter(([name]) => names.includes(name))));
