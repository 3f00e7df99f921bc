import { setTimeout as delay } from "node:timers/promises";
import type { CallToolResult, ServerContext } from "@modelcontextprotocol/server";
import type { Fixture } from "./fixture-server.ts";
import { redPixel, silence } from "./samples.ts";

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
