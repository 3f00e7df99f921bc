import { z } from "zod";
import {
  CLIENT_CAPABILITIES_META_KEY,
  acceptedContent,
  inputRequired,
  inputResponse,
  type CallToolResult,
  type InputRequest,
  type InputRequiredResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { text } from "./fixture-content.ts";
import type { Fixture } from "./fixture-server.ts";

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
