import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  inputRequired,
  inputResponse,
  type CallToolResult,
  type ElicitRequestFormParams,
  type ElicitResult,
  type InputRequest,
  type InputRequiredResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
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

type Answer = CallToolResult | InputRequiredResult;

/** Tools that ask the client back as 2026-07-28 has it: the answer says what is missing, and the call is made again with it. */
export const registerRoundTools = ({ server, codec }: Fixture): void => {
  const tool = (name: string, answer: (context: ServerContext) => Answer | Promise<Answer>) =>
    server.registerTool(name, { description: `${name} of the conformance suite` }, answer);

  tool("test_input_required_result_elicitation", ({ mcpReq }) => {
    const answer = acceptedContent(mcpReq.inputResponses, "user_name", nameSchema);
    return answer
      ? text(`Hello, ${answer.name}!`)
      : inputRequired({ inputRequests: { user_name: askName() } });
  });
  tool("test_input_required_result_sampling", ({ mcpReq }) => {
    const answer = inputResponse(mcpReq.inputResponses, "capital_question");
    if (answer.kind === "sampling") return text(`The model says: ${JSON.stringify(answer.result.content)}`);
    return inputRequired({
      inputRequests: { capital_question: sample("What is the capital of France?", 100) },
    });
  });
  tool("test_input_required_result_list_roots", ({ mcpReq }) => {
    const answer = inputResponse(mcpReq.inputResponses, "client_roots");
    if (answer.kind === "roots") return text(`Roots: ${answer.roots.map(({ uri }) => uri).join(", ")}`);
    return inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } });
  });
  const confirming = (name: string) =>
    tool(name, async ({ mcpReq }) => {
      const known = mcpReq.requestState() !== undefined;
      if (known && acceptedContent(mcpReq.inputResponses, "confirm", okSchema)) return text("state-ok");
      const confirm = inputRequired.elicit({ message: "Please confirm", requestedSchema: okSchema });
      return inputRequired({ inputRequests: { confirm }, requestState: await codec.mint({ step: 1 }) });
    });
  confirming("test_input_required_result_request_state");
  confirming("test_input_required_result_tampered_state");
  tool("test_input_required_result_multiple_inputs", async ({ mcpReq }) => {
    const answer = acceptedContent(mcpReq.inputResponses, "user_name", nameSchema);
    const greeting = inputResponse(mcpReq.inputResponses, "greeting");
    const roots = inputResponse(mcpReq.inputResponses, "client_roots");
    if (answer && greeting.kind === "sampling" && roots.kind === "roots")
      return text(`Hello, ${answer.name}, with ${roots.roots.length} roots`);
    const inputRequests = {
      user_name: askName(),
      greeting: sample("Generate a greeting", 50),
      client_roots: inputRequired.listRoots(),
    };
    return inputRequired({ inputRequests, requestState: await codec.mint({ step: 1 }) });
  });
  tool("test_input_required_result_multi_round", async ({ mcpReq }) => {
    const step = mcpReq.requestState<{ step: number }>()?.step ?? 0;
    const color = acceptedContent(mcpReq.inputResponses, "step2", colorSchema);
    if (step === 2 && color) return text(`You like ${color.color}`);
    const named = step === 1 && acceptedContent(mcpReq.inputResponses, "step1", nameSchema);
    const inputRequests: Record<string, InputRequest> = named
      ? {
          step2: inputRequired.elicit({
            message: "Step 2: What is your favorite color?",
            requestedSchema: colorSchema,
          }),
        }
      : { step1: askName("Step 1: What is your name?") };
    return inputRequired({ inputRequests, requestState: await codec.mint({ step: named ? 2 : 1 }) });
  });
  tool("test_input_required_result_capabilities", (context) => {
    const { sampling, elicitation } = capabilitiesOf(context);
    const inputRequests: Record<string, InputRequest> = {
      ...(elicitation && { name: askName() }),
      ...(sampling && { greeting: sample("Generate a greeting", 50) }),
    };
    return Object.keys(inputRequests).length === 0
      ? text("This client answers nothing")
      : inputRequired({ inputRequests });
  });
  // Asking for what the client has not declared is refused before it leaves: that is what this tool is for.
  tool("test_missing_capability", () => inputRequired({ inputRequests: { greeting: sample("Greet", 50) } }));
  tool("test_streaming_elicitation", async ({ mcpReq }) => {
    const params = { progressToken: mcpReq._meta?.progressToken ?? "none", progress: 1, total: 2 };
    await mcpReq.notify({ method: "notifications/progress", params });
    return inputRequired({ inputRequests: { user_name: askName() } });
  });
};

const nameSchema = z.object({ name: z.string() });
const okSchema = z.object({ ok: z.boolean() });
const colorSchema = z.object({ color: z.string() });

const askName = (message = "What is your name?"): InputRequest =>
  inputRequired.elicit({ message, requestedSchema: nameSchema });

const sample = (prompt: string, maxTokens: number): InputRequest =>
  inputRequired.createMessage({
    messages: [{ role: "user", content: { type: "text", text: prompt } }],
    maxTokens,
  });

const envelopeSchema = z.object({
  [CLIENT_CAPABILITIES_META_KEY]: z
    .object({ sampling: z.looseObject({}), elicitation: z.looseObject({}) })
    .partial(),
});

const capabilitiesOf = ({ mcpReq }: ServerContext) =>
  envelopeSchema.safeParse(mcpReq.envelope).data?.[CLIENT_CAPABILITIES_META_KEY] ?? {};
