import { setTimeout as delay } from "node:timers/promises";
import {
  fromJsonSchema,
  ResourceTemplate,
  type CallToolResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { Fixture } from "./fixture-server.ts";

/** A picture of one red pixel, as PNG in base64. */
export const redPixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/** A sound without samples: the 44 bytes of a WAV header (mono, 8 kHz, 8 bit), in base64. */
const silence = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

export const text = (value: string): CallToolResult => ({ content: [{ type: "text", text: value }] });

/** Tools that answer with every kind of content, report progress, log, fail, and change the lists. */
export const registerContentTools = ({ server, publish }: Fixture): void => {
  const tool = (name: string, answer: (context: ServerContext) => CallToolResult | Promise<CallToolResult>) =>
    server.registerTool(name, { description: `${name} of the conformance suite` }, answer);

  tool("test_simple_text", () => text("This is a simple text response for testing."));
  tool("test_image_content", () => ({ content: [image] }));
  tool("test_audio_content", () => ({
    content: [{ type: "audio", data: silence, mimeType: "audio/wav" }],
  }));
  tool("test_embedded_resource", () => ({
    content: [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
  }));
  tool("test_multiple_content_types", () => ({
    content: [
      { type: "text", text: "Multiple content types test:" },
      image,
      resource(
        "test://mixed-content-resource",
        "application/json",
        JSON.stringify({ test: "data", value: 123 }),
      ),
    ],
  }));
  tool("test_error_handling", () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
  tool("test_tool_with_logging", async ({ mcpReq }) => {
    await mcpReq.log("info", "Tool execution started");
    await pause(mcpReq.signal);
    await mcpReq.log("info", "Tool processing data");
    await pause(mcpReq.signal);
    await mcpReq.log("info", "Tool execution completed");
    return text("Logged three times");
  });
  tool("test_logging_tool", async ({ mcpReq }) => {
    await mcpReq.log("info", "Only for those who asked for logs");
    return text("Logged once");
  });
  tool("test_tool_with_progress", async ({ mcpReq }) => {
    for (const progress of [0, 50, 100]) {
      const progressToken = mcpReq._meta?.progressToken;
      const params = { progressToken, progress, total: 100 };
      if (progressToken !== undefined) await mcpReq.notify({ method: "notifications/progress", params });
      if (progress < 100) await pause(mcpReq.signal);
    }
    return text("Told of its progress");
  });
  tool("test_trigger_tool_change", () => {
    publish({ kind: "tools_list_changed" });
    return text("The list of tools has changed");
  });
  tool("test_trigger_prompt_change", () => {
    publish({ kind: "prompts_list_changed" });
    return text("The list of prompts has changed");
  });
};

const image = { type: "image" as const, data: redPixel, mimeType: "image/png" };

const resource = (uri: string, mimeType: string, content: string) => ({
  type: "resource" as const,
  resource: { uri, mimeType, text: content },
});

/** As the suite prescribes it between two messages: without it they would arrive as one. */
const pause = (signal: AbortSignal): Promise<void> => delay(50, undefined, { signal });

export const registerResources = ({ server }: Fixture): void => {
  const plain = (name: string, uri: string, content: string) =>
    server.registerResource(name, uri, { description: name, mimeType: "text/plain" }, () => ({
      contents: [{ uri, mimeType: "text/plain", text: content }],
    }));
  plain("Static text", "test://static-text", "This is the content of the static text resource.");
  plain("Watched resource", "test://watched-resource", "Watched");
  server.registerResource(
    "Static binary",
    "test://static-binary",
    { description: "Static binary", mimeType: "image/png" },
    ({ href }) => ({ contents: [{ uri: href, mimeType: "image/png", blob: redPixel }] }),
  );
  server.registerResource(
    "Template",
    new ResourceTemplate("test://template/{id}/data", { list: undefined }),
    { description: "Data by its id", mimeType: "application/json" },
    ({ href }, { id }) => {
      const data = { id, templateTest: true, data: `Data for ID: ${String(id)}` };
      return { contents: [{ uri: href, mimeType: "application/json", text: JSON.stringify(data) }] };
    },
  );
  // A stateless server cannot notify later: 2025-11-25 requires only the answer.
  server.server.setRequestHandler("resources/subscribe", () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", () => ({}));
};

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
