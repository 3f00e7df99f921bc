import { z } from "zod";
import { JobAnswer, JobId } from "./job.ts";
import { operation } from "./operation.ts";

/** What a person answers. An empty text means "not given". */
const words = z.string().max(100_000, "must have at most 100,000 characters").default("");
export const AnswerInput = z.strictObject({
  job_id: JobId,
  id: z.string().max(200).default("").describe("The id of waiting; empty: whatever the job waits for now"),
  answers: z
    .record(
      z.string().max(10_000),
      z.union([z.string().max(20_000), z.array(z.string().max(20_000)).max(20)]),
    )
    .default({})
    .meta({
      description: "By the text of each question: a label of its options, a list of labels, or own words",
      example: { "Which database?": "SQLite" },
    }),
  text: words.describe("Answers the first question, in own words or by a label"),
  approve: z
    .boolean()
    .nullable()
    .default(null)
    .describe("Of a plan: true: go on by it; false: not, and with feedback: plan anew"),
  feedback: words.describe("Of a plan: words that the agent gets"),
  plan: words.describe("With approve: the plan to go on by, in place of the agent's"),
});
export type AnswerInput = z.infer<typeof AnswerInput>;

/** What a person has answered. `refuse`: the plan is not wanted, and the job ends. */
export type Answer =
  | { kind: "answers"; answers: Record<string, string | string[]> }
  | { kind: "approve"; feedback: string; plan: string | null }
  | { kind: "send_back"; feedback: string }
  | { kind: "refuse" };

export const answerOperations = {
  answer_job: operation({
    title: "Answer a job's question",
    summary:
      "Answer what a running job waits for: its questions by answers or text, its plan by approve. The job goes on.",
    input: AnswerInput,
    output: JobAnswer,
    http: { method: "post", path: "/jobs/{job_id}/answer" },
    mcpOmit: ["plan"],
    annotations: { readOnly: false, destructive: true, idempotent: false },
    errors: ["invalid_request", "job_not_found", "not_waiting", "question_changed", "store_unavailable"],
  }),
};
