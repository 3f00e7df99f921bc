import { z } from "zod";

const facts = {
  exit_code: z.int().nullable().meta({ example: 0, description: "Null: it was not run, or was ended" }),
  duration_ms: z.int().meta({ example: 4200 }),
  log: z.string().meta({ example: "12 passed\n", description: "The end of its output, at most 8,192 bytes" }),
};

/** How a check went that was run. */
export const CheckRun = z
  .object({ status: z.enum(["passed", "failed", "timed_out"]), ...facts })
  .meta({ id: "CheckRun" });
export type CheckRun = z.infer<typeof CheckRun>;

/** A command that the service has run on an agent's work. */
export const Check = z
  .object({
    name: z.string().meta({ example: "tests" }),
    status: z.enum(["passed", "failed", "failed_before", "timed_out", "skipped"]).meta({
      example: "passed",
      description:
        "failed_before: it is red, and was so before the change; skipped: nothing that it is for has changed",
    }),
    ...facts,
    before: CheckRun.nullable().meta({
      description: "The same on the commit that the work began with; null: it was not needed",
    }),
  })
  .meta({ id: "JobCheck" });
export type Check = z.infer<typeof Check>;

/** Whether it says that the change is at fault. */
export const isRed = ({ status }: Pick<Check, "status">): boolean =>
  status === "failed" || status === "timed_out";

/** What a check says while it runs; `before`: on the commit that the work began with. */
const who = { name: z.string(), before: z.boolean() };

export const CheckEvent = z.discriminatedUnion("type", [
  /** `round` counts from 0: how often the agent was told of red checks before. */
  z.object({ type: z.literal("check_start"), ...who, run: z.string(), round: z.int() }),
  /** Lines of its output, standard error as well. */
  z.object({ type: z.literal("check_output"), ...who, text: z.string() }),
  z.object({
    type: z.literal("check_end"),
    ...who,
    status: Check.shape.status,
    exit_code: z.int().nullable(),
    duration_ms: z.int(),
  }),
]);
export type CheckEvent = z.infer<typeof CheckEvent>;
