import {
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes,
  type Span,
  type SpanContext,
} from "@opentelemetry/api";
import { isAgentEvent, type AgentEvent, type JobEvent } from "../contract/event.ts";
import type { Job, StageName, Usage } from "../contract/job.ts";
import { agentSpanId, spanIdOf, traceIdOf } from "../lib/trace-context.ts";

/** Contents of a trace beside the answers: prompts, and inputs and results of tools. */
export type Contents = { prompts: boolean; tools: boolean };

/** Begins a span at an ISO 8601 time. `ids`: its own, where they follow from the job's; others are random. */
export type StartSpan = (
  name: string,
  span: { at: string; parent: SpanContext | null; ids?: SpanContext; attributes?: Attributes },
) => Span;

/**
 * The trace of an ended job: its stages, and in each attempt the agent's turns and tool calls. The root comes last, so
 * that whoever has it has all.
 */
export const traceJob = async (
  start: StartSpan,
  job: Job,
  events: AsyncIterable<JobEvent>,
  contents: Contents,
): Promise<void> => {
  const idsOf = (spanId: string): SpanContext => ({
    traceId: traceIdOf(job.id),
    spanId,
    traceFlags: TraceFlags.SAMPLED,
  });
  const endedAt = job.ended_at ?? job.created_at;
  const ids = idsOf(spanIdOf(job.id, "job"));
  const root = start("job", { at: job.created_at, parent: null, ids, attributes: jobAttributes(job) });
  for (const { stage, attempt, from, to } of stagesOf(job)) {
    const isAgent = stage === "result";
    const span = start(isAgent ? `invoke_agent ${job.profile}` : (stageNames[stage] ?? stage), {
      at: from,
      parent: ids,
      ...(isAgent && { ids: idsOf(agentSpanId(job.id, attempt)) }),
      attributes: isAgent ? agentAttributesOf(job, attempt, contents) : { "service.attempt": attempt },
    });
    end(span, to, isAgent && attempt === job.attempt && job.status === "failed");
  }
  const agents = new Map<number, ReturnType<typeof createAgentSpans>>();
  for await (const event of events) {
    if (!isAgentEvent(event)) continue;
    const { attempt } = event;
    const parent = idsOf(agentSpanId(job.id, attempt));
    const spans = agents.get(attempt) ?? createAgentSpans(start, { parent, model: job.model, contents });
    agents.set(attempt, spans);
    spans.take(event, event.at);
  }
  for (const spans of agents.values()) spans.end(endedAt);
  end(root, endedAt, job.status !== "succeeded");
};

/** The trace of one turn of agent mode, while it runs. */
export const traceTurn = (
  start: StartSpan,
  turn: { agent: string; at: string; prompt: string; contents: Contents },
) => {
  const { agent, at, prompt, contents } = turn;
  const root = start(`invoke_agent ${agent}`, { at, parent: null });
  const spans = createAgentSpans(start, { parent: root.spanContext(), model: null, contents });
  return {
    take: spans.take,
    end: (to: string, { isError, ...ended }: EndedAgent & { isError: boolean }): void => {
      spans.end(to);
      root.setAttributes(agentAttributes(agent, ended, { ...contents, task: prompt }));
      end(root, to, isError);
    },
  };
};

const end = (span: Span, at: string, isError: boolean): void => {
  span.setStatus({ code: isError ? SpanStatusCode.ERROR : SpanStatusCode.OK });
  span.end(new Date(at));
};

const jobAttributes = (job: Job): Attributes =>
  present({
    "service.profile": job.profile,
    "service.repo_url": job.repo_url,
    "service.status": job.status,
    "service.failure_reason": job.failure_reason,
    "service.branch": job.branch,
    "service.pr_url": job.pr_url,
    "service.instance": job.pod_name,
    "session.id": job.session_id,
  });

/** The record has the figures of the last attempt. */
const agentAttributesOf = (job: Job, attempt: number, contents: Contents): Attributes => {
  const isLast = attempt === job.attempt;
  const ended = {
    model: job.model,
    output: isLast ? job.output : null,
    usage: isLast ? job.usage : null,
    costUsd: isLast ? job.cost_usd : null,
    sessionId: job.session_id,
  };
  return agentAttributes(job.profile, ended, { ...contents, task: job.task });
};

type EndedAgent = {
  model: string | null;
  output: string | null;
  usage: Usage | null;
  costUsd: number | null;
  sessionId: string | null;
};

/** GenAI semantic conventions; there is none for the cost. */
const agentAttributes = (
  agent: string,
  { model, output, usage, costUsd, sessionId }: EndedAgent,
  { prompts, task }: Contents & { task: string },
): Attributes =>
  present({
    ...operation("invoke_agent", model),
    "gen_ai.agent.name": agent,
    "gen_ai.conversation.id": sessionId,
    "session.id": sessionId,
    "gen_ai.usage.input_tokens": usage?.input_tokens,
    "gen_ai.usage.output_tokens": usage?.output_tokens,
    "gen_ai.usage.cache_read.input_tokens": usage?.cache_read_input_tokens,
    "gen_ai.usage.cache_creation.input_tokens": usage?.cache_creation_input_tokens,
    "gen_ai.usage.cost": costUsd,
    "gen_ai.input.messages": prompts ? messages("user", task) : null,
    "gen_ai.output.messages": output === null ? null : messages("assistant", output),
  });

const operation = (name: string, model: string | null): Attributes =>
  present({
    "gen_ai.operation.name": name,
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": model,
  });

const messages = (role: string, content: string): string =>
  JSON.stringify([{ role, parts: [{ type: "text", content: cut(content) }] }]);

/** Spans that begin with the stage before; those of an attempt follow each other. */
const stageNames: Partial<Record<StageName, string>> = {
  claimed: "queue",
  fetched: "fetch",
  worktree_ready: "worktree",
  setup: "setup",
  agent_started: "spawn",
  pushed: "push",
  pull_request: "pull request",
  ended: "settle",
};

const stagesOf = (job: Job) => {
  let from = job.created_at;
  return job.stages
    .filter(({ stage }) => stage !== "queued" && stage !== "first_output")
    .map(({ stage, at: to, attempt }) => {
      const passed = { stage, attempt, from, to };
      from = to;
      return passed;
    });
};

type AgentRun = {
  /** The agent's span. */
  parent: SpanContext;
  model: string | null;
  contents: Contents;
};

/**
 * Turns of an agent, and the tool calls in each. A turn begins with the model's first words after the results of the turn
 * before, and ends with the last result of its own tool calls.
 */
const createAgentSpans = (start: StartSpan, { parent, model, contents }: AgentRun) => {
  const tools = new Map<string, Span>();
  let turn: { span: Span; text: string } | null = null;
  let count = 0;

  /** The end of a very long run is left out: its beginning explains more. */
  const open = (at: string, name: string, above: SpanContext, attributes: Attributes): Span => {
    count += 1;
    return count > maxSpans ? trace.wrapSpanContext(above) : start(name, { at, parent: above, attributes });
  };

  const currentTurn = (at: string) =>
    (turn ??= { span: open(at, "chat", parent, operation("chat", model)), text: "" });

  const endTurn = (at: string): void => {
    if (turn === null) return;
    if (turn.text !== "") turn.span.setAttribute("gen_ai.output.messages", messages("assistant", turn.text));
    end(turn.span, at, false);
    turn = null;
  };

  const useTool = (event: Extract<AgentEvent, { type: "tool_use" }>, at: string): void => {
    const above = event.parent === null ? currentTurn(at).span : tools.get(event.parent);
    const attributes = present({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": event.name,
      "gen_ai.tool.call.id": event.id,
      "gen_ai.tool.call.arguments": contents.tools ? cut(JSON.stringify(event.input) ?? "") : null,
    });
    tools.set(event.id, open(at, `execute_tool ${event.name}`, above?.spanContext() ?? parent, attributes));
  };

  const endTool = (event: Extract<AgentEvent, { type: "tool_result" }>, at: string): void => {
    const span = tools.get(event.tool_use_id);
    if (span === undefined) return;
    tools.delete(event.tool_use_id);
    if (contents.tools) span.setAttribute("gen_ai.tool.call.result", cut(event.content));
    end(span, at, event.is_error);
    if (event.parent === null && tools.size === 0) endTurn(at);
  };

  return {
    take: (event: AgentEvent, at: string): void => {
      if (event.type === "thinking") currentTurn(at);
      else if (event.type === "text") {
        const current = currentTurn(at);
        if (current.text.length < maxText) current.text += event.text;
      } else if (event.type === "tool_use") useTool(event, at);
      else if (event.type === "tool_result") endTool(event, at);
      else if (event.type === "result") endTurn(at);
    },
    end: (at: string): void => {
      for (const span of tools.values()) end(span, at, true);
      endTurn(at);
    },
  };
};

const maxSpans = 2000;

/** Longest text of an attribute, characters. */
const maxText = 8192;

const cut = (text: string): string => (text.length > maxText ? `${text.slice(0, maxText)}…` : text);

const present = (attributes: Record<string, string | number | boolean | null | undefined>): Attributes =>
  Object.fromEntries(
    Object.entries(attributes).filter(
      (entry): entry is [string, string | number | boolean] =>
        entry[1] !== null && entry[1] !== undefined && entry[1] !== "",
    ),
  );
