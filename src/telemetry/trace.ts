import type { AgentEvent, JobEvent } from "../contract/event.ts";
import type { Job, StageName, Usage } from "../contract/job.ts";
import { agentSpanId, spanIdOf, traceIdOf } from "../lib/trace-context.ts";
import type { Span } from "./sink.ts";

/** What may be in a trace beside the answers: what was asked, and what tools were given and returned. */
export type Contents = { prompts: boolean; tools: boolean };

type Attributes = Record<string, string | number | boolean>;

/** The trace of an ended job: its stages, and in each attempt the agent's turns and tool calls. */
export const jobTrace = async (
  job: Job,
  events: AsyncIterable<JobEvent>,
  contents: Contents,
): Promise<Span[]> => {
  const traceId = traceIdOf(job.id);
  const root = spanIdOf(job.id, "job");
  const common = { traceId, jobId: job.id, sessionId: job.session_id };
  const endedAt = job.ended_at ?? job.created_at;
  const agents = new Map<number, AgentSpans>();
  for await (const event of events) {
    if (event.type === "stage") continue;
    const { attempt } = event;
    const parent = agentSpanId(job.id, attempt);
    const spans = agents.get(attempt) ?? createAgentSpans({ ...common, parent, model: job.model, contents });
    agents.set(attempt, spans);
    spans.take(event, event.at);
  }
  const stages = stageSpans(job).map(({ stage, attempt, ...times }) =>
    stage === "result"
      ? agentSpan(job, attempt, { ...common, parentSpanId: root, ...times }, contents)
      : {
          ...common,
          ...times,
          spanId: spanIdOf(job.id, stage, attempt),
          parentSpanId: root,
          name: stageNames[stage] ?? stage,
          status: "ok",
          attributes: { "service.attempt": attempt },
        },
  );
  const rootSpan: Span = {
    ...common,
    spanId: root,
    parentSpanId: null,
    name: "job",
    startedAt: job.created_at,
    endedAt,
    status: job.status === "succeeded" ? "ok" : "error",
    attributes: present({
      "service.profile": job.profile,
      "service.repo_url": job.repo_url,
      "service.status": job.status,
      "service.failure_reason": job.failure_reason,
      "service.branch": job.branch,
      "service.pr_url": job.pr_url,
      "service.instance": job.pod_name,
      "session.id": job.session_id,
    }),
  };
  return [rootSpan, ...stages, ...[...agents.values()].flatMap((spans) => spans.end(endedAt))];
};

/** The trace of one turn of agent mode, while it runs. */
export const createTurnTrace = (turn: {
  /** Unique to the turn. */
  id: string;
  agent: string;
  startedAt: string;
  prompt: string;
  contents: Contents;
}) => {
  const traceId = traceIdOf(turn.id);
  const root = spanIdOf(turn.id, "turn");
  const { contents } = turn;
  const spans = createAgentSpans({
    traceId,
    jobId: null,
    sessionId: null,
    parent: root,
    model: null,
    contents,
  });
  return {
    take: spans.take,
    end: (ended: EndedAgent & { endedAt: string; sessionId: string | null; error: boolean }): Span[] => {
      const { endedAt, sessionId, error } = ended;
      const span: Span = {
        traceId,
        spanId: root,
        parentSpanId: null,
        jobId: null,
        sessionId,
        name: `invoke_agent ${turn.agent}`,
        startedAt: turn.startedAt,
        endedAt,
        status: error ? "error" : "ok",
        attributes: agentAttributes(turn.agent, { ...ended, sessionId }, { ...contents, task: turn.prompt }),
      };
      return [span, ...spans.end(endedAt)].map((each) => ({ ...each, sessionId }));
    },
  };
};

/** What an agent reports of itself at its end. */
export type EndedAgent = {
  model: string | null;
  output: string | null;
  usage: Usage | null;
  costUsd: number | null;
};

type Base = Pick<Span, "traceId" | "jobId" | "sessionId" | "parentSpanId" | "startedAt" | "endedAt">;

const agentSpan = (job: Job, attempt: number, base: Base, contents: Contents): Span => {
  // The record has the figures of the last attempt.
  const isLast = attempt === job.attempt;
  const ended = {
    model: job.model,
    output: isLast ? job.output : null,
    usage: isLast ? job.usage : null,
    costUsd: isLast ? job.cost_usd : null,
    sessionId: job.session_id,
  };
  return {
    ...base,
    spanId: agentSpanId(job.id, attempt),
    name: `invoke_agent ${job.profile}`,
    status: isLast && job.status === "failed" ? "error" : "ok",
    attributes: agentAttributes(job.profile, ended, { ...contents, task: job.task }),
  };
};

/** GenAI semantic conventions; there is none for the cost. */
const agentAttributes = (
  agent: string,
  { model, output, usage, costUsd, sessionId }: EndedAgent & { sessionId: string | null },
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
  agent_started: "spawn",
  pushed: "push",
  pull_request: "pull request",
  ended: "settle",
};

const stageSpans = (job: Job) => {
  let before = job.created_at;
  return job.stages
    .filter(({ stage }) => stage !== "queued" && stage !== "first_output")
    .map(({ stage, at, attempt }) => {
      const startedAt = before;
      before = at;
      return { stage, attempt, startedAt, endedAt: at };
    });
};

type AgentSpans = ReturnType<typeof createAgentSpans>;

type AgentRun = Pick<Span, "traceId" | "jobId" | "sessionId"> & {
  /** The agent's span. */
  parent: string;
  model: string | null;
  contents: Contents;
};

/**
 * Turns of an agent, and the tool calls in each. A turn begins with the model's first words after the results of the turn
 * before, and ends with the last result of its own tool calls.
 */
const createAgentSpans = ({ parent, model, contents, ...common }: AgentRun) => {
  const spans: Span[] = [];
  const tools = new Map<string, Span>();
  let turn: { span: Span; text: string } | null = null;
  let count = 0;

  const open = (at: string, name: string, parentSpanId: string, attributes: Attributes): Span => {
    count += 1;
    const spanId = spanIdOf(common.traceId, parent, count);
    const times = { startedAt: at, endedAt: at, status: "ok" };
    const span: Span = { ...common, ...times, spanId, parentSpanId, name, attributes };
    // What is left out of a very long run is its end: its beginning explains more.
    if (spans.length < maxSpans) spans.push(span);
    return span;
  };

  const currentTurn = (at: string) =>
    (turn ??= { span: open(at, "chat", parent, operation("chat", model)), text: "" });

  const endTurn = (at: string): void => {
    if (turn === null) return;
    turn.span.endedAt = at;
    if (turn.text !== "") turn.span.attributes["gen_ai.output.messages"] = messages("assistant", turn.text);
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
    tools.set(event.id, open(at, `execute_tool ${event.name}`, above?.spanId ?? parent, attributes));
  };

  const endTool = (event: Extract<AgentEvent, { type: "tool_result" }>, at: string): void => {
    const span = tools.get(event.tool_use_id);
    if (span === undefined) return;
    tools.delete(event.tool_use_id);
    span.endedAt = at;
    if (event.is_error) span.status = "error";
    if (contents.tools) span.attributes["gen_ai.tool.call.result"] = cut(event.content);
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
    end: (at: string): Span[] => {
      endTurn(at);
      for (const span of tools.values()) Object.assign(span, { endedAt: at, status: "error" });
      return spans;
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
