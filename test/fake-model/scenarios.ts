import { z } from "zod";
import { type Answer, message, text, thinking, toolUse } from "./answer.ts";
import { code } from "./coding.ts";
import type { Conversation } from "./conversation.ts";
import { ask, plan } from "./asking.ts";
import { review } from "./review.ts";

/** How often a scenario was asked before in this session: by it an error can be given a number of times and then healed. */
type Scenario = (conversation: Conversation, parameters: unknown, asked: number) => Answer;

/** A scenario whose parameters are checked, so that a typing error in a test fails instead of being ignored. */
const scenario =
  <Schema extends z.ZodType>(
    schema: Schema,
    answer: (conversation: Conversation, parameters: z.output<Schema>, asked: number) => Answer,
  ): Scenario =>
  (conversation, parameters, asked) =>
    answer(conversation, schema.parse(parameters), asked);

const Pace = { rate: z.number().positive().optional(), deltaLength: z.int().positive().optional() };
const pace = ({ rate, deltaLength }: { rate?: number | undefined; deltaLength?: number | undefined }) => ({
  ...(rate === undefined ? {} : { rate }),
  ...(deltaLength === undefined ? {} : { deltaLength }),
});

const done = "Done.";
const plainText = z.strictObject({ text: z.string().default(done), ...Pace });

/**
 * What the model can be told to do by a line `scenario: NAME {json}` in the prompt. Without one it is `auto`. The
 * table in docs/inside/testing.md says what each does.
 */
export const scenarios: Record<string, Scenario> = {
  auto: (conversation) => {
    const offered = new Set(conversation.tools);
    if (offered.has("Write") && offered.has("Bash")) return code(conversation);
    return offered.has("Read") ? review(conversation) : message([text(done)]);
  },
  code: (conversation) => code(conversation),
  review: (conversation) => review(conversation),

  text: scenario(plainText, (_, parameters) => message([text(parameters.text)], pace(parameters))),
  thinking: scenario(
    plainText.extend({ thinking: z.string().default("Let me think about it.") }),
    (_, parameters) => message([thinking(parameters.thinking), text(parameters.text)], pace(parameters)),
  ),
  deltas: scenario(z.strictObject({ count: z.int().positive().default(10_000) }), (_, { count }) =>
    message([text("delta ".repeat(count))], { deltaLength: 6 }),
  ),

  bash: scenario(
    z.strictObject({ command: z.string(), text: z.string().optional() }),
    ({ results }, { command, text: final }) => {
      const [output] = results;
      if (!output) return message([toolUse("Bash", { command, description: "Run a command" })]);
      return message([text(final ?? output.text.trim())]);
    },
  ),
  tools: scenario(
    z.strictObject({
      calls: z.array(z.strictObject({ name: z.string(), input: z.record(z.string(), z.unknown()) })),
      text: z.string().default(done),
      ...Pace,
    }),
    ({ results }, parameters) => {
      const call = parameters.calls[results.length];
      return message(
        call ? [text(`Calling ${call.name}.`), toolUse(call.name, call.input)] : [text(parameters.text)],
        pace(parameters),
      );
    },
  ),

  ask: scenario(
    z.strictObject({
      questions: z.array(z.looseObject({ question: z.string() })).optional(),
      sister: z.boolean().default(false),
      text: z.string().default(done),
    }),
    ask,
  ),
  plan: scenario(
    z.strictObject({
      plan: z.string().default("# Plan\n1. Write the file."),
      text: z.string().default(done),
    }),
    plan,
  ),

  error: scenario(
    z.strictObject({
      status: z.int().default(500),
      message: z.string().default("The scripted model refuses this request."),
      times: z.int().positive().default(Number.MAX_SAFE_INTEGER),
      retryAfter: z.int().optional(),
      resetsIn: z.int().optional(),
      text: z.string().default(done),
    }),
    (_, { times, text: afterwards, ...error }, asked) =>
      asked < times ? errorAnswer(error) : message([text(afterwards)]),
  ),
  broken: scenario(
    z.strictObject({
      after: z.int().default(3),
      text: z.string().default("This answer is cut off in the middle, and then told again."),
    }),
    (_, parameters) =>
      message([text(parameters.text)], { interrupted: { afterDeltas: parameters.after, by: "cut" } }),
  ),
  broken_tool: () =>
    message([text("I call a tool."), toolUse("Bash", { command: "echo never", description: "Never runs" })], {
      interrupted: { afterDeltas: 4, by: "cut" },
    }),
  stall: scenario(z.strictObject({ after: z.int().default(3) }), (_, { after }) =>
    message([text("This answer begins well and then nothing comes any more.")], {
      interrupted: { afterDeltas: after, by: "stall" },
    }),
  ),
  silence: () => ({ kind: "silence" }),
  refusal: () => message([text("I cannot help with that.")], { stopReason: "refusal" }),
  max_tokens: ({ answers }) =>
    answers === 0
      ? message([text("This is as far as it")], { stopReason: "max_tokens" })
      : message([text(" goes.")]),
  empty: (_conversation, _parameters, asked) => message(asked === 0 ? [] : [text(done)]),
};

const errorAnswer = (error: {
  status: number;
  message: string;
  retryAfter?: number | undefined;
  resetsIn?: number | undefined;
}): Answer => {
  const headers: Record<string, string> = {};
  if (error.retryAfter !== undefined) headers["retry-after"] = String(error.retryAfter);
  if (error.resetsIn !== undefined) {
    const reset = Date.now() + error.resetsIn * 1000;
    headers["anthropic-ratelimit-unified-status"] = "rejected";
    headers["anthropic-ratelimit-unified-reset"] = String(Math.floor(reset / 1000));
    headers["anthropic-ratelimit-unified-representative-claim"] = "five_hour";
    headers["anthropic-ratelimit-requests-reset"] = new Date(reset).toISOString();
  }
  return { kind: "error", status: error.status, message: error.message, headers };
};

/** The scenario a prompt names, with its parameters. */
export const parseDirective = (prompt: string): { name: string; parameters: unknown } => {
  // The last: a prompt may tell what was said before.
  const [, name = "auto", json] = [...prompt.matchAll(/\bscenario:\s*(\w+)[ \t]*(\{.*\})?/g)].at(-1) ?? [];
  return { name, parameters: json === undefined ? {} : JSON.parse(json) };
};
