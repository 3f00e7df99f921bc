import { fromJsonSchema } from "@modelcontextprotocol/server";
import { text } from "./fixture-content.ts";
import type { Fixture } from "./fixture-server.ts";

/** Tools whose input schema goes beyond what zod writes: it must arrive at the client word for word. */
export const registerSchemaTools = ({ server }: Fixture): void => {
  server.registerTool(
    "json_schema_2020_12_tool",
    { description: "Tool with JSON Schema 2020-12 features", inputSchema: conditional },
    () => text("accepted"),
  );
  server.registerTool(
    "test_x_mcp_header",
    { description: "Has a parameter that is repeated in a header", inputSchema: mirrored },
    () => text("accepted"),
  );
};

const conditional = fromJsonSchema<Record<string, unknown>>({
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
});

// The type of a schema does not know this keyword of MCP.
const region: object = { type: "string", "x-mcp-header": "Region" };

const mirrored = fromJsonSchema<{ region: string }>({
  type: "object",
  properties: { region },
  required: ["region"],
});
