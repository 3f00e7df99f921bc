import type { Question } from "../../contract/job.ts";
import { redactDeep, type Redact } from "../../lib/redact.ts";
import type { Ask, Reply } from "../agent.ts";
import { AskedQuestions } from "./wire.ts";

/** A call of a tool that the CLI asks about. */
export type ToolCall = { id: string; name: string; input: Readonly<Record<string, unknown>> };

type Permission =
  | { behavior: "deny"; message: string }
  | { behavior: "allow"; updatedInput: Readonly<Record<string, unknown>>; updatedPermissions?: object[] };

type Settled = {
  redact: Redact;
  /** Permission mode in which the agent works once its plan is approved. */
  approvedMode: string;
};

export const responseLine = (requestId: string, response: object): string =>
  line({ subtype: "success", request_id: requestId, response });

export const errorLine = (requestId: string, error: unknown): string =>
  line({
    subtype: "error",
    request_id: requestId,
    error: error instanceof Error ? error.message : String(error),
  });

const line = (response: object): string => `${JSON.stringify({ type: "control_response", response })}\n`;

/** What the CLI's hooks are registered for; their timeout, in seconds, is longer than any question is held. */
export const askHooks = {
  PreToolUse: [{ matcher: "AskUserQuestion|ExitPlanMode", hookCallbackIds: ["ask"], timeout: 604_800 }],
};

export const hookDefers = {
  hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "defer" },
};

export const hookDenies = (reason: string): object => ({
  hookSpecificOutput: {
    hookEventName: "PreToolUse",
    permissionDecision: "deny",
    permissionDecisionReason: reason,
  },
});

/** The call with its plan. A newer CLI leaves out the tool's argument: then the plan is what the agent said last. */
export const withPlan = (call: ToolCall, lastWords: () => string): ToolCall =>
  call.name !== "ExitPlanMode" || planOf(call.input) !== ""
    ? call
    : { ...call, input: { ...call.input, plan: lastWords().trim() } };

/** What a person is shown of a call. */
export const shown = (
  { name, input }: ToolCall,
  redact: Redact,
): Pick<Ask, "kind" | "questions" | "plan"> => {
  if (name !== "ExitPlanMode")
    return { kind: "question", questions: redactDeep(questionsOf(input), redact), plan: null };
  const plan = planOf(input);
  return { kind: "plan", questions: [], plan: plan === "" ? null : redact(plan) };
};

const questionsOf = (input: ToolCall["input"]): Question[] =>
  AskedQuestions.parse(input).questions.map(({ multiSelect: multi_select, ...question }) => ({
    ...question,
    multi_select,
  }));

const planOf = ({ plan }: ToolCall["input"]): string => (typeof plan === "string" ? plan : "");

/** What the CLI is told about the permission of a call. */
export const permissionOf = (
  { input }: ToolCall,
  reply: Reply,
  { redact, approvedMode }: Settled,
): Permission => {
  switch (reply.kind) {
    case "answers":
      // Without the questions the CLI refuses the answers.
      return {
        behavior: "allow",
        updatedInput: { ...input, answers: answersTo(input, reply.answers, redact) },
      };
    case "approve":
      return {
        behavior: "allow",
        updatedInput: approvedPlan(input, reply),
        updatedPermissions: [{ type: "setMode", mode: approvedMode, destination: "session" }],
      };
    case "send_back":
      return { behavior: "deny", message: reply.feedback };
    case "defer":
      return refusal;
  }
};

/** Who answers has seen the questions masked. */
const answersTo = (
  input: ToolCall["input"],
  answers: Extract<Reply, { kind: "answers" }>["answers"],
  redact: Redact,
): Record<string, string> =>
  Object.fromEntries(
    questionsOf(input).flatMap(({ question }) => {
      const given = answers[redact(question)];
      return given === undefined ? [] : [[question, [given].flat().join(", ")]];
    }),
  );

/** An approval has no words of its own: they reach the model as a part of the plan. */
const approvedPlan = (
  input: ToolCall["input"],
  { plan, feedback }: Extract<Reply, { kind: "approve" }>,
): ToolCall["input"] => {
  const approved = plan ?? planOf(input);
  if (feedback !== "") return { plan: `${approved || unknownPlan}\n\n## Words of the user\n\n${feedback}` };
  return approved === "" ? input : { plan: approved };
};

/** A process that resumes the session may not have the plan. The words alone would take its place. */
const unknownPlan = "The plan is approved as you have told it.";

export const refusal: Permission = {
  behavior: "deny",
  message:
    "This needs the permission of a person, and nobody is asked for it here. Do without it, and say in the end what you left out.",
};

export const refusalWarning = ({ name, input }: ToolCall, reason: string, redact: Redact): string => {
  const { command } = input;
  const wanted = redact(typeof command === "string" ? command : JSON.stringify(input));
  const why = reason === "" ? "" : ` (${redact(reason).slice(0, 200)})`;
  return `The agent was refused a call of ${name} that needs a person's permission${why}: ${wanted.slice(0, 200)}`;
};
