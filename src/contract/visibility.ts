import { z } from "zod";
import { operation } from "./operation.ts";

/** Which parts of an agent's work its callers see. Stored per agent; slash tokens change it too. */
export const Visibility = z
  .object({
    show_thinking: z.boolean().meta({ example: false }),
    show_tools: z.boolean().meta({ description: "Tool calls and their results", example: true }),
    show_text: z
      .boolean()
      .meta({ description: "Off: neither narration nor the final answer is shown", example: true }),
    show_narration: z.boolean().meta({ description: "Text between tool calls", example: true }),
    show_final: z.boolean().meta({ description: "The last text of a turn", example: true }),
  })
  .meta({ id: "Visibility" });
export type Visibility = z.infer<typeof Visibility>;

/** The default. */
export const everythingVisible: Visibility = {
  show_thinking: true,
  show_tools: true,
  show_text: true,
  show_narration: true,
  show_final: true,
};

const VisibilityAnswer = z.object({ success: z.literal(true), visibility: Visibility });

export const visibilityOperations = {
  get_visibility: operation({
    title: "Get what the agent shows",
    summary:
      "Which parts of the loaded agent's work its callers see: thinking, tools, narration, final answer.",
    input: z.strictObject({}),
    output: VisibilityAnswer,
    http: { method: "get", path: "/agent/visibility" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    part: "agent",
    errors: ["store_unavailable"],
  }),
  set_visibility: operation({
    title: "Set what the agent shows",
    summary:
      "Show or hide parts of the loaded agent's work, for everyone who talks to it, from their next answer on. What is not given stays as it is.",
    input: z.strictObject(Visibility.partial().shape),
    output: VisibilityAnswer,
    http: { method: "put", path: "/agent/visibility" },
    annotations: { readOnly: false, destructive: false, idempotent: true },
    part: "agent",
    errors: ["store_unavailable"],
  }),
};
