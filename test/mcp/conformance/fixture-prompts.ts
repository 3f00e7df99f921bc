import { z } from "zod";
import { acceptedContent, completable, inputRequired } from "@modelcontextprotocol/server";
import type { Fixture } from "./fixture-server.ts";
import { redPixel } from "./fixture-content.ts";

const twoArguments = z.object({
  arg1: completable(z.string().describe("First test argument"), (value) =>
    ["paris", "park", "party"].filter((word) => word.startsWith(value)),
  ),
  arg2: z.string().describe("Second test argument"),
});
const uriArgument = z.object({ resourceUri: z.string().describe("URI of the resource to embed") });
const contextSchema = z.object({ context: z.string() });

export const registerPrompts = ({ server }: Fixture): void => {
  server.registerPrompt("test_simple_prompt", { description: "Has no arguments" }, () => ({
    messages: [user("This is a simple prompt for testing.")],
  }));
  server.registerPrompt(
    "test_prompt_with_arguments",
    { description: "Has two arguments", argsSchema: twoArguments },
    ({ arg1, arg2 }) => ({ messages: [user(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)] }),
  );
  server.registerPrompt(
    "test_prompt_with_embedded_resource",
    { description: "Embeds a resource", argsSchema: uriArgument },
    ({ resourceUri }) => ({
      messages: [
        {
          role: "user",
          content: {
            type: "resource",
            resource: {
              uri: resourceUri,
              mimeType: "text/plain",
              text: "Embedded resource content for testing.",
            },
          },
        },
        user("Please process the embedded resource above."),
      ],
    }),
  );
  server.registerPrompt("test_prompt_with_image", { description: "Has a picture" }, () => ({
    messages: [
      { role: "user", content: { type: "image", data: redPixel, mimeType: "image/png" } },
      user("Please analyze the image above."),
    ],
  }));
  server.registerPrompt(
    "test_input_required_result_prompt",
    { description: "Asks the user first" },
    ({ mcpReq }) => {
      const answer = acceptedContent(mcpReq.inputResponses, "user_context", contextSchema);
      if (answer) return { messages: [user(`With the context ${answer.context}`)] };
      const message = "What context should the prompt use?";
      const user_context = inputRequired.elicit({ message, requestedSchema: contextSchema });
      return inputRequired({ inputRequests: { user_context } });
    },
  );
};

const user = (value: string) => ({
  role: "user" as const,
  content: { type: "text" as const, text: value },
});
