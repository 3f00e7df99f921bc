import { z } from "zod";
import type { ElicitRequestFormParams, ElicitResult, ServerContext } from "@modelcontextprotocol/server";
import { text } from "./fixture-content.ts";
import type { Fixture } from "./fixture-server.ts";

const samplingInput = z.object({ prompt: z.string() });
const elicitationInput = z.object({ message: z.string() });

/** Tools that ask the client back as 2025-11-25 has it: by a request of their own in the middle of the call. */
export const registerAskingTools = ({ server }: Fixture): void => {
  server.registerTool(
    "test_sampling",
    { description: "Has the client's model answer a prompt", inputSchema: samplingInput },
    async ({ prompt }, { mcpReq }) => {
      // Otherwise the question would wait for an answer that no client can give.
      if (server.server.getClientCapabilities()?.sampling === undefined)
        throw new Error("Client does not support sampling");
      const messages = [{ role: "user" as const, content: { type: "text" as const, text: prompt } }];
      const { content } = await mcpReq.requestSampling({ messages, maxTokens: 100 });
      return text(`LLM response: ${"text" in content ? content.text : ""}`);
    },
  );
  server.registerTool(
    "test_elicitation",
    { description: "Asks the user for name and address", inputSchema: elicitationInput },
    async ({ message }, context) => {
      const { action, content } = await elicit(context, message, {
        username: { type: "string", description: "User's response" },
        email: { type: "string", description: "User's email address" },
      });
      return text(`User response: action=${action}, content=${JSON.stringify(content ?? {})}`);
    },
  );
  const asking = (name: string, properties: Properties) =>
    server.registerTool(name, { description: `${name} of the conformance suite` }, async (context) => {
      const { action, content } = await elicit(context, "Please fill in", properties);
      return text(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`);
    });
  asking("test_elicitation_sep1034_defaults", {
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  });
  asking("test_elicitation_sep1330_enums", {
    untitledSingle: { type: "string", enum: options },
    titledSingle: { type: "string", oneOf: titled("Option") },
    legacyEnum: {
      type: "string",
      enum: ["opt1", "opt2", "opt3"],
      enumNames: ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti: { type: "array", items: { type: "string", enum: options } },
    titledMulti: { type: "array", items: { anyOf: titled("Choice") } },
  });
};

type Properties = ElicitRequestFormParams["requestedSchema"]["properties"];

const options = ["option1", "option2", "option3"];

const titled = (noun: string) =>
  ["First", "Second", "Third"].map((word, index) => ({
    const: `value${index + 1}`,
    title: `${word} ${noun}`,
  }));

const elicit = (
  { mcpReq }: ServerContext,
  message: string,
  properties: Properties,
): Promise<ElicitResult> => {
  const required = Object.keys(properties);
  return mcpReq.elicitInput({ message, requestedSchema: { type: "object", properties, required } });
};
