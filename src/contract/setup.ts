import { z } from "zod";

/** How a worktree was made ready. */
export const JobSetup = z
  .object({
    cache: z.enum(["cold", "nearest", "warm", "none"]).meta({
      description:
        "What was there of earlier setups: nothing yet, that of another key, all of it; none: nothing is kept",
      example: "warm",
    }),
    seconds: z.number().meta({ example: 12.5, description: "How long it took" }),
    exit_code: z.int().nullable().meta({
      example: 0,
      description: "Of the last command; null: none was run, or it was ended at its time limit",
    }),
    waited_seconds: z.number().meta({ example: 0, description: "How long it waited for that of other jobs" }),
  })
  .meta({ id: "JobSetup" });
export type JobSetup = z.infer<typeof JobSetup>;

/** Lines of its output, standard error as well; before that of each command, `$ ` and the command. */
export const SetupEvent = z.object({ type: z.literal("setup"), text: z.string() });
export type SetupEvent = z.infer<typeof SetupEvent>;
