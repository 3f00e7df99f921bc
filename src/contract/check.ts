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
        "failed_before: it is red, and was so before the change, which does not fail the job; skipped: nothing that it is for has changed",
    }),
    ...facts,
    before: CheckRun.nullable().describe(
      "The same on the commit that the work began with; null: it was not needed",
    ),
  })
  .meta({ id: "JobCheck" });
export type Check = z.infer<typeof Check>;

/** Whether it is not green: its agent is told, as long as there are rounds. */
export const isRed = (check: Pick<Check, "status">): boolean =>
  failsJob(check) || check.status === "failed_before";

/** Whether a job fails of which it stays red: not when it was red before, unless it must pass. */
export const failsJob = ({ status }: Pick<Check, "status">): boolean =>
  status === "failed" || status === "timed_out";

/** `tests was red before and still is`; null: nothing is. */
export const stillRed = (checks: readonly Pick<Check, "name" | "status">[]): string | null => {
  const names = checks.filter(({ status }) => status === "failed_before").map(({ name }) => name);
  if (names.length < 2) return names.length === 0 ? null : `${names[0]} was red before and still is`;
  return `${names.join(", ")} were red before and still are`;
};

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
