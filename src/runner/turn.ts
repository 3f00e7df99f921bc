import type {
  Agent,
  AgentLaunch,
  AgentProcess,
  Spent,
  TurnEvent,
  TurnOutcome,
  TurnPart,
} from "../agents/agent.ts";
import type { AgentEvent } from "../contract/event.ts";
import { addUsage, hasTokens, type Denied } from "../contract/job.ts";
import type { Run } from "../jobs/run.ts";
import type { Log } from "../lib/log.ts";
import type { ProcessIdentity } from "../lib/process/identity.ts";
import { traceparentOf } from "../lib/trace-context.ts";
import { cutFront } from "../lib/tail-buffer.ts";
import type { Profiles } from "../profiles/profile.ts";
import type { Worktree } from "../repos/repos.ts";
import type { JobRecord, StoredMessage } from "../store/job-record.ts";
import type { Attached } from "./attached.ts";
import { answerAsk, answeringOf, isApproved, noteTaken, type Answering, type Asking } from "./asking.ts";
import type { JobPatch } from "../store/job-store.ts";
import { othersText, type Other } from "./several.ts";
import { noteHeard, tellMessages } from "./messages.ts";

type JobTurn = {
  record: JobRecord;
  run: Run;
  worktree: Worktree;
  /** Where the agent works: the worktree's directory, or a throwaway copy of it. */
  directory: string;
  launch: AgentLaunch;
  /** Directories of objects that its clone borrows. */
  borrows: readonly string[];
  /** Its further repositories. */
  others: readonly Other[];
  /** Whether the profile may only read. */
  readOnly: boolean;
  agent: Agent;
  profiles: Profiles;
  newId: () => string;
  /** Whether another job has a session of this id. */
  isTaken: (sessionId: string) => Promise<boolean>;
  log: Log;
  questions: "ask" | "never" | "fail";
  /** Whether its plan has to be approved. */
  plan: boolean;
  /** What it is told in this turn; null: its task, or the answer to its question. */
  said: string | null;
  /** Files of its task. */
  files: Attached;
  /** What the turn begins with in place of all that; null: it does not. */
  begins: StoredMessage | null;
  /** Longest time that a question waits for its answer, seconds. */
  questionTtl: number;
  /** The time of the store. */
  now: () => Date;
  /** Whether its session's turn ended early and goes on: it is not told the task again. */
  goesOn: boolean;
  /** Whether it uses ANTHROPIC_API_KEY in the place of the usual credential. */
  usesKey: boolean;
};

type StartedTurn = JobTurn &
  Pick<AgentProcess, "sandbox"> & { asking: Asking; answering: Answering; session: Session };

/** Thrown before the prompt when the run no longer owns the job: the agent is ended before it has done anything. */
export class LostOwnership extends Error {
  override name = "LostOwnership";
}

/** Longest text of the agent that a job stores, bytes. */
const maxTextBytes = 51_200;

/** `sessionCwd`: where its session began. */
export type JobTurnOutcome = TurnOutcome & { asking: Asking; sessionCwd: string };

/** Starts the agent in the worktree, gives it the task as its only turn, and publishes its events. */
export const runJobAgent = async (job: JobTurn): Promise<JobTurnOutcome> => {
  const asking: Asking = { waiting: null, answer: null };
  const { record, run, launch } = job;
  const session = await chooseSession(job);
  run.signal.throwIfAborted();
  const answering = await answeringOf(record, { agent: job.agent, transcript: session.resumeFrom });
  const { goesOn, begins, message, content } = beginningOf(job, answering, session.resumeFrom !== null);
  const isPlanned = answering?.how === "asks_again" ? record.plan_approved : isApproved(record);
  const started = await job.agent.start({
    id: record.id,
    attempt: record.attempt,
    cwd: job.directory,
    borrows: job.borrows,
    also: job.others.map((other) => other.worktree.path),
    launch,
    session,
    reports: true,
    hears: true,
    goesOn,
    usesKey: job.usesKey,
    asks: { question: job.questions !== "never", plan: job.plan && !isPlanned },
    traceparent: traceparentOf(record.id, record.attempt),
  });
  if (!started.ok) {
    run.event({ type: "exited", exit_code: null, signal: null });
    return { ...started.outcome, asking, sessionCwd: session.cwd };
  }
  const broken = new AbortController();
  const turn = started.process.turn({
    content,
    onAsk: (ask) => void answerAsk(job, ask, asking).catch((error: unknown) => broken.abort(error)),
    ...(message !== null && { begins: message }),
    appendSystemPrompt: null,
    effort: null,
    timeoutSeconds: launch.timeoutSeconds,
    principal: record.principal,
    isLast: true,
    signal: AbortSignal.any([run.signal, broken.signal]),
  });
  const given = { ...job, sandbox: started.process.sandbox, asking, answering, session };
  await using _telling = tellMessages(run, started.process, { log: job.log, begins });
  const outcome = await publishTurn(given, turn, broken);
  if (outcome.costUsd === null && hasTokens(outcome.usage)) run.warn(unknownCost(outcome.model));
  const text = cutFront(outcome.text, maxTextBytes);
  const ended = { ...outcome, text, asking, ...(await endedIn(given, outcome.sessionId)) };
  return broken.signal.aborted ? { ...ended, ...brokenBy(broken.signal.reason) } : ended;
};

/**
 * The session that a process says it ends in, and where that began. `/clear` as a task begins another one. An agent may write
 * to the output of its CLI: a session that another job has is not taken for this job's.
 */
const endedIn = async (job: StartedTurn, sessionId: string | null) => {
  const { id, cwd: sessionCwd } = job.session;
  if (sessionId === null || sessionId === id) return { sessionId, sessionCwd };
  if (await job.run.whileReachable(() => job.isTaken(sessionId))) {
    job.run.warn("The agent ended in a session of another job; this job keeps its own");
    return { sessionId: id, sessionCwd };
  }
  await job.profiles.noteSession(sessionId, job.record);
  return { sessionId, sessionCwd: job.directory };
};

/** How the turn begins: with its content, with a message in place of it, or with neither. */
const beginningOf = (job: JobTurn, answering: Answering, isResumed: boolean) => {
  const goesOn = job.goesOn && isResumed && answering === null;
  const begins = goesOn ? null : job.begins;
  const message = answering?.how === "lost" ? answering.message : begins;
  const needsNone = goesOn || message !== null || answering?.how === "asks_again";
  return { goesOn, begins, message, content: needsNone ? [] : contentOf(job, isResumed) };
};

const contentOf = (job: JobTurn, isResumed: boolean): TurnPart[] => {
  if (job.said !== null && isResumed) return [{ type: "text", text: job.said }];
  const text = [promptOf(job, isResumed), ...(job.said === null ? [] : [job.said])].join("\n\n");
  return [...job.files.parts, { type: "text", text }];
};

/** Records and publishes what a turn yields. What cannot be published ends the turn, by `broken`. */
const publishTurn = async (job: StartedTurn, turn: AsyncIterable<TurnEvent>, broken: AbortController) => {
  const { record, run, log } = job;
  const publish = createPublisher(run, job);
  for await (const event of turn) {
    if (event.type === "ended") return event.outcome;
    if (event.type === "ready") await recordStart(job, event.identity);
    else if (event.type === "message" && event.id === job.answering?.message.id)
      run.note({ asked: null }, { lazy: false });
    else if (event.type === "message") await noteHeard(run, event);
    else if (event.type === "spent") run.note(spentBy(record, event.spent), { lazy: false });
    else if (!broken.signal.aborted) {
      try {
        publish(event);
      } catch (err) {
        log.error({ err }, "what the agent said could not be passed on");
        broken.abort(err);
      }
    }
  }
  throw new Error("the agent's turn has no outcome");
};

/** Before the agent gets its prompt. @throws LostOwnership */
const recordStart = async (job: StartedTurn, identity: ProcessIdentity): Promise<void> => {
  const { record, run, worktree, launch, session, answering } = job;
  // Before the record: a crash in between repeats the line instead of losing it.
  if (!isNoted(record, session.id)) await job.profiles.noteSession(session.id, record);
  const isOwner = await run.record({
    pid: identity.pid,
    process: identity,
    session_id: session.id,
    session_cwd: session.cwd,
    job_config_dir: launch.configDir,
    worktree_id: worktree.worktreeId,
    worktree_path: job.directory,
    branch: worktree.branch,
    read_only: job.readOnly,
    checking: null,
    // A crash would otherwise reset this turn's files to the checked commit of the turn before.
    commit_sha: null,
    waiting: null,
    salvage_ref: null,
    ...(answering?.how === "heard" && { asked: null }),
    ...(answering !== null && answering.how !== "asks_again" && { plan_approved: isApproved(record) }),
    sandbox: { ...job.sandbox, denied: record.sandbox?.denied ?? [] },
    ...(launch.model === null ? {} : { model: launch.model }),
  });
  if (!isOwner) throw new LostOwnership("another run owns the job");
  run.stage("agent_started", `pid ${identity.pid}`);
};

const brokenBy = (reason: unknown): Pick<TurnOutcome, "ok" | "reason" | "retryable" | "error"> => ({
  ok: false,
  reason: "internal",
  retryable: true,
  error: `What the agent said could not be passed on, so it was stopped: ${reason instanceof Error ? reason.message : String(reason)}.\nWhat to do: Continue the session.`,
});

/** What a job has used and cost with this attempt; `record` is as it was when the attempt began. */
export const spentBy = (record: JobRecord, { usage, costUsd, costEstimated }: Spent): JobPatch => ({
  usage: addUsage(record.usage, usage),
  cost_usd: costUsd === null ? record.cost_usd : Number(((record.cost_usd ?? 0) + costUsd).toFixed(10)),
  cost_estimated: record.cost_estimated || costEstimated,
});

const unknownCost = (model: string | null): string =>
  `What this run cost is not known: it ended without a result, and there is no price for the model ${model ?? "(unknown)"}; set max_budget_usd in its profile`;

/** Publishes a run's events, and the stages that they imply. */
const createPublisher = (
  run: Run,
  { sandbox, asking }: Pick<StartedTurn, "sandbox" | "asking">,
): ((event: AgentEvent) => void) => {
  let spoke = false;
  let result: ResultEvent | null = null;
  const warned = new Set<string>();
  const denied = new Map<string, Denied>();
  return (event) => {
    if (!spoke && ["thinking", "text", "tool_use"].includes(event.type)) {
      spoke = true;
      run.stage("first_output");
    }
    if (event.type === "result") result = event;
    if (event.type === "denied") {
      const { kind, name, count, allow } = event;
      denied.set(`${kind} ${name}`, { kind, name, count, allow });
      run.note({ sandbox: { ...sandbox, denied: [...denied.values()] } });
    }
    noteTaken(run, asking, event);
    if (event.type === "exited") noteResult(run, asking, result);
    // What concerns one block of text stays beside it.
    const isOfRun = event.type === "warning" && event.dropped_block === undefined;
    if (!isOfRun || warned.has(event.message) || warned.size >= mostWarnings) return run.event(event);
    warned.add(event.message);
    run.warn(event.message);
  };
};

/** The last one decides, unless its turn was put off. A refused request (`success`) may be made again: its stage is later. */
const noteResult = (run: Run, { waiting, answer }: Asking, result: ResultEvent | null): void => {
  if (result === null || (waiting !== null && answer === null)) return;
  if (result.ok || result.subtype !== "success") run.stage("result", result.subtype);
};

type ResultEvent = Extract<AgentEvent, { type: "result" }>;

/** Most warnings of the agent in the record of one run: a broken agent repeats itself. */
const mostWarnings = 100;

/** An earlier attempt got as far with this session. */
const isNoted = ({ session_id, job_config_dir }: JobRecord, sessionId: string): boolean =>
  session_id === sessionId && job_config_dir !== null;

type Session = { id: string; resumeFrom: string | null; cwd: string };

/** The requested session, that of a lost attempt, or a fresh one. It is resumed from where it began, wherever it goes on. */
const chooseSession = async ({ record, profiles, newId, directory }: JobTurn): Promise<Session> => {
  const { session_id: id, session_cwd: cwd, request } = record;
  const resumeFrom = id === null || cwd === null ? null : await profiles.findTranscript(id, cwd);
  if (id !== null && cwd !== null && resumeFrom !== null) return { id, resumeFrom, cwd };
  if (request.session_id !== "") throw new UnknownSession(request.session_id);
  return { id: newId(), resumeFrom: null, cwd: directory };
};

/** The session to resume has no transcript on this instance. */
export class UnknownSession extends Error {
  override name = "UnknownSession";
  constructor(sessionId: string) {
    super(`There is no transcript of agent session ${sessionId}; submit the task without session_id`);
  }
}

/** For an agent that can ask nobody. */
const alone =
  "Nobody can answer questions while you work: decide yourself, and say in your summary what you decided.";

const promptOf = ({ record, worktree, others, questions, files, readOnly }: JobTurn, resumed: boolean) =>
  [
    ...[worktree, ...others.map((other) => other.worktree)].flatMap(
      ({ behind, atRemote }) => behind ?? (readOnly ? [] : (atRemote ?? [])),
    ),
    ...(resumed && record.request.session_id === ""
      ? ["Your work on this task was interrupted. Look at what is done already and bring it to its end."]
      : []),
    record.task,
    ...othersText(others),
    ...(questions === "never" ? [alone] : []),
    ...(files.said === null ? [] : [files.said]),
  ].join("\n\n");
