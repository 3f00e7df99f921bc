import type { Document, Schema } from "./question.ts";

const message: Schema = {
  type: "object",
  properties: {
    jsonrpc: { const: "2.0" },
    id: { type: ["integer", "string"] },
    method: { enum: ["tools/call", "tools/call", "tools/list", "initialize", "ping", "nothing"] },
    params: {
      type: "object",
      properties: { name: { type: "string" }, arguments: { properties: { limit: {} } }, _meta: {} },
      required: ["name"],
    },
  },
  required: ["jsonrpc", "method"],
};

const failure: Schema = { type: "object", properties: { jsonrpc: { const: "2.0" } }, required: ["jsonrpc"] };

/** The document with what is posted to `/mcp`, which OpenAPI has no words for: JSON-RPC. */
export const withMessages = ({ paths, components: { schemas } }: Document): Document => {
  const failures = { anyOf: [failure, schemas["Failure"] ?? {}] };
  const of = (schema: Schema) => ({ content: { "application/json": { schema } } });
  const refused = Object.fromEntries([400, 403, 404, 406, 413, 415].map((status) => [status, of(failures)]));
  const streamed = { content: { ...of({}).content, "text/event-stream": {} } };
  const post = {
    operationId: "message",
    requestBody: of({ anyOf: [message, { type: "array", items: message }] }),
    responses: { 200: streamed, 202: { content: { "": {} } }, ...refused },
  };
  return {
    paths: { ...paths, "/mcp": { post } },
    components: { schemas: { ...schemas, MessageFailure: failure } },
  };
};
