import type { Agent, Ask, SaidMessage, TurnOutcome } from "../agents/agent.ts";
import type { Answer } from "../contract/answer.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Waiting } from "../contract/job.ts";
import type { Run } from "../jobs/run.ts";
import type { JobOptions } from "../contract/run-options.ts";
import type { Limits } from "../profiles/profile.ts";
import { cutEnd } from "../lib/tail-buffer.ts";
import { traceIdOf } from "../lib/trace-context.ts";
import type { JobRecord } from "../store/job-record.ts";

type Asker = {
  record: JobRecord;
  run: Pick<Run, "ask" | "note">;
  questions: "ask" | "never" | "fail";
  /** Longest time that a question waits for its answer, seconds. */
  questionTtl: number;
  /** The time of the store. */
  now: () => Date;
};

/** What the agent asks, and the answer that it has got; null: nothing, none. */
export type Asking = { waiting: Waiting | null; answer: Answer | null };

/** Answers what the agent asks, or lets it ask again later, by a process that resumes the session. */
export const answerAsk = async (job: Asker, ask: Ask, asking: Asking): Promise<void> => {
  const { record, run } = job;
  const known = record.asked?.waiting.id === ask.id ? record.asked : null;
  const asked_at = job.now();
  asking.waiting = known?.waiting ?? {
    kind: ask.kind,
    id: ask.id,
    questions: ask.questions.map((question) => ({ ...question })),
    plan: ask.plan === null ? null : cutEnd(ask.plan, maxPlanBytes),
    asked_at: asked_at.toISOString(),
    until: new Date(asked_at.getTime() + job.questionTtl * 1000).toISOString(),
  };
  // That to an earlier question is none to this one.
  asking.answer = null;
  const isFailed = job.questions === "fail" && ask.kind === "question";
  asking.answer = known?.answer ?? (isFailed ? null : await run.ask(asking.waiting));
  const { answer: given } = asking;
  ask.reply(given === null || given.kind === "refuse" ? { kind: "defer" } : given);
};

/** Longest plan that a job shows, bytes. */
const maxPlanBytes = 51_200;

/** The answer for an agent whose CLI has lost the question. */
const answerText = (given: Answer): string => {
  if (given.kind === "answers") {
    const lines = Object.entries(given.answers).map(
      ([question, words]) => `- ${question}: ${[words].flat().join(", ")}`,
    );
    return `You have asked the user. These are the answers:\n${lines.join("\n")}\nGo on with them.`;
  }
  if (given.kind === "approve")
    return ["The user has approved your plan. Go on by it.", given.plan ?? "", given.feedback]
      .filter(Boolean)
      .join("\n\n");
  return given.kind === "send_back" ? `The user does not approve your plan: ${given.feedback}` : "";
};

/** How an agent that is started again gets the answer to its question; null: it has no answer to get. */
export type Answering = { how: "asks_again" | "heard" | "lost"; message: SaidMessage } | null;

/**
 * By its session: its CLI asks again, and gets the answer then; it has heard it before the service noted that; or it has lost the
 * question, and is told the answer as a message. The message has always the same id, by which it is told once.
 */
export const answeringOf = async (
  { id, asked }: Pick<JobRecord, "id" | "asked">,
  { agent, transcript }: { agent: Pick<Agent, "findAnswer">; transcript: string | null },
): Promise<Answering> => {
  if (!asked?.answer || transcript === null) return null;
  const { answer, waiting } = asked;
  const message = { id: messageIdOf(`${id} ${waiting.id}`), text: answerText(answer), when: "next" as const };
  const words = answer.kind === "send_back" ? JSON.stringify(answer.feedback).slice(1, -1) : "";
  const how = await agent.findAnswer(transcript, { id: waiting.id, messageId: message.id, words });
  return { how, message };
};

const messageIdOf = (name: string): string =>
  traceIdOf(name).replace(/^(.{8})(.{4}).(.{3}).(.{3})/, "$1-$2-4$3-8$4-");

/** Whether a person has approved its plan, though the agent may not have heard of it. */
export const isApproved = ({ plan_approved, asked }: JobRecord): boolean =>
  plan_approved || asked?.answer?.kind === "approve";

/** From its result on, the answer is in the agent's transcript. */
export const noteTaken = (run: Asker["run"], { waiting, answer }: Asking, event: AgentEvent): void => {
  if (event.type !== "tool_result" || answer === null || event.tool_use_id !== waiting?.id) return;
  run.note({ asked: null, ...(answer.kind === "approve" && { plan_approved: true }) }, { lazy: false });
};

type Ended = Pick<TurnOutcome, "deferred"> & {
  asking: Asking;
  questions: Asker["questions"];
  /** Aborted with its reason when the run was stopped. */
  stopped: AbortSignal;
};

/**
 * What becomes of a job whose agent has asked.
 *
 * | it has asked | its answer            | the turn                      | next                                      |
 * |--------------|-----------------------|-------------------------------|-------------------------------------------|
 * | yes          | none                  | cancelled                     | `go_on`: it ends like any cancelled one   |
 * | yes          | none                  | deferred, or stopped          | `park`; `fail` if the profile says so     |
 * | yes          | the plan is refused   | deferred                      | `refuse`                                  |
 * | anything else |                      |                               | `go_on`                                   |
 */
export const afterAsking = ({ asking, deferred, questions, stopped }: Ended) => {
  const { waiting, answer } = asking;
  if (waiting === null || stopped.reason === "cancel") return "go_on";
  if (answer === null && (deferred || stopped.aborted))
    return questions === "fail" && waiting.kind === "question" ? "fail" : "park";
  return answer?.kind === "refuse" && deferred ? "refuse" : "go_on";
};

/** What a job may still use that has worked so long: its earlier processes and checks have had their part. */
export const leftOf = (record: JobRecord, limits: Limits, workedMs: number): Partial<JobOptions> => {
  const { options, num_turns, cost_usd } = record;
  const least = (asked: number | null, most: number | null): number =>
    Math.min(asked ?? Infinity, most ?? Infinity);
  const left = (most: number, used: number, smallest: number): number | null =>
    most === Infinity ? null : Math.max(smallest, most - used);
  const workedSeconds = Math.floor(workedMs / 1000);
  return {
    timeout_seconds: left(least(options.timeout_seconds, limits.timeout_seconds), workedSeconds, 1),
    max_turns: left(least(options.max_turns, limits.max_turns), num_turns ?? 0, 1),
    max_budget_usd: left(least(options.max_budget_usd, limits.max_budget_usd), cost_usd ?? 0, 0.0001),
  };
};
