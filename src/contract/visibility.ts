import { z } from "zod";

/** Which parts of an agent's work its callers see. Stored per agent, changed by slash tokens. */
export const Visibility = z
  .object({
    show_thinking: z.boolean(),
    show_tools: z.boolean(),
    show_text: z.boolean().meta({ description: "Off: neither narration nor the final answer is shown" }),
    show_narration: z.boolean().meta({ description: "Text between tool calls" }),
    show_final: z.boolean().meta({ description: "The last text of a turn" }),
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
