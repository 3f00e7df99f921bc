import type { TurnOutcome } from "../agents/agent.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import {
  isUnfinished,
  type CompletionRecord,
  type CompletionStore,
  toCompletion,
} from "../store/completion-store.ts";
import type { EventBus } from "../store/event-bus.ts";
import { digestOf } from "./answer-digest.ts";
import { createPublisher } from "./completion-events.ts";
import type { Engine, EngineTurn } from "./engine.ts";
import { endedBy } from "./failure.ts";
import { cutFront } from "../lib/tail-buffer.ts";
import type { RecordWriter } from "./completion-writer.ts";

type Dependencies = {
  engine: Pick<Engine, "run">;
  store: Pick<CompletionStore, "get">;
  bus: EventBus;
  write: RecordWriter;
  now: () => Date;
  log: Log;
  /** Interval of checks for a cancel by another instance, ms. */
  watchMs: number;
};

export type Run = {
  /** As it was created. */
  record: CompletionRecord;
  /** Text before the answer. */
  status: string;
  ask: Omit<EngineTurn, "signal" | "answerDigest">;
  /** Aborted with a `ServiceError` that says why. */
  stop: AbortController;
  progress: ((message: string) => void) | undefined;
};

/** Runs a created completion, from its first event on the bus to the end of its record. Never rejects. */
export const createCompletionTurn =
  (deps: Dependencies) =>
  async (run: Run): Promise<CompletionRecord> => {
    const { now, bus, write } = deps;
    const { uuid } = run.record;
    const started = { status: "running", started_at: now().toISOString() } as const;
    const running = { ...run.record, ...started };
    const over = new AbortController();
    // The agent does not wait for the store. The last write contains all of it.
    void write(running, started, over.signal).then((result) => {
      if (result === "refused") run.stop.abort(cancelled());
    });
    const end = { ...started, ...(await finalRecord(deps, run, running)) };
    over.abort();
    const ended = { ...running, ...end };
    const result = await write(running, end);
    const stored = result === "refused" ? await deps.store.get(uuid).catch(() => null) : null;
    // If another writer ended it, that one published the end. If only the reply was lost, the other writer was this
    // one.
    if (stored !== null && stored.ended_at !== ended.ended_at) return isSame(stored, ended) ? stored : ended;
    publishEnd(bus, ended, now);
    return ended;
  };

const isSame = (one: CompletionRecord, other: CompletionRecord): boolean =>
  one.epoch === other.epoch && one.created_at === other.created_at;

/** Tells subscribers that nothing follows. */
export const publishEnd = (
  bus: EventBus,
  record: Pick<CompletionRecord, "uuid" | "status" | "session_id" | "error">,
  now: () => Date,
): void => {
  const entry = { ts: now().toISOString(), session_id: record.session_id ?? "", correlation_id: record.uuid };
  if (record.error !== null) bus.publish({ event_type: "error", content: record.error, ...entry });
  bus.publish({ event_type: "done", content: record.status, ...entry });
};

/** Runs the turn in the engine, and returns the final record. */
const finalRecord = async (
  deps: Dependencies,
  run: Run,
  running: CompletionRecord,
): Promise<Partial<CompletionRecord>> => {
  const { engine, now, log } = deps;
  const { signal } = run.stop;
  const bus = createPublisher(deps, running.uuid);
  let session: string | null = null;
  let ended: TurnOutcome | null = null;
  const stopWatching = watch(deps, run);
  try {
    signal.throwIfAborted();
    const answerDigest = (): string => digestOf(ended?.text ?? "");
    for await (const event of engine.run({ ...run.ask, signal, answerDigest })) {
      bus.take(event);
      if (event.type === "session") session = event.id;
      else if (event.type === "ended") ended = event.outcome;
      else if (event.type === "tool_use") report(deps, run, `Uses ${event.name}`);
    }
    if (ended === null) throw new Error("the agent's turn has no outcome");
    return completedBy({ ...ended, sessionId: session, text: run.status + ended.text }, now());
  } catch (error) {
    const failure = signal.aborted ? endedBy(signal) : error;
    const isTold = failure instanceof ServiceError && failure.code !== "internal";
    if (!isTold) log.error({ err: failure, completion: running.uuid }, "a completion failed");
    // What is known of a turn that fails.
    const known = { ...(ended !== null && factsOf(ended)), session_id: ended?.sessionId ?? session };
    return { ...known, ...failedBy(isTold ? failure : internal, running, now()) };
  } finally {
    stopWatching();
  }
};

/** Tells the caller who waits. */
const report = ({ log }: Dependencies, { record, progress }: Run, message: string): void => {
  try {
    progress?.(message);
  } catch (err) {
    log.error({ err, completion: record.uuid }, "the progress of a completion could not be published");
  }
};

/** Stops the turn when another instance has ended it. Returns a function that ends the watch. */
const watch = ({ store, watchMs }: Dependencies, { record, stop }: Run): (() => void) => {
  const look = async (): Promise<void> => {
    const stored = await store.get(record.uuid).catch(() => null);
    if (stored === null) return;
    if (!isSame(stored, record) || !isUnfinished(stored)) stop.abort(cancelled());
  };
  const timer = setInterval(() => void look(), watchMs);
  return () => clearInterval(timer);
};

type Changes = Partial<CompletionRecord>;

/** Longest stored answer, bytes; of a longer one the end is stored, since it has the conclusion. */
const maxResultBytes = 1_048_576;

const completedBy = (outcome: TurnOutcome, now: Date): Changes => ({
  status: "completed",
  is_error: false,
  result: cutFront(outcome.text, maxResultBytes),
  ...factsOf(outcome),
  duration_ms: Math.round(outcome.durationMs),
  ended_at: now.toISOString(),
  error: null,
  error_code: null,
  ...(outcome.model === null ? {} : { model: outcome.model }),
});

const factsOf = (
  outcome: Pick<TurnOutcome, "sessionId" | "numTurns" | "usage" | "costUsd" | "costEstimated">,
): Changes => ({
  session_id: outcome.sessionId,
  cost_usd: outcome.costUsd,
  cost_estimated: outcome.costEstimated,
  num_turns: outcome.numTurns,
  usage: outcome.usage,
});

/** A turn that the caller stopped, or abandoned, is cancelled; every other one failed. */
export const failedBy = (
  failure: { code: string; message: string },
  record: Pick<CompletionRecord, "created_at" | "started_at">,
  now: Date,
): Changes => ({
  status: failure.code === "turn_cancelled" ? "cancelled" : "failed",
  is_error: true,
  error: failure.message,
  error_code: failure.code,
  duration_ms: Math.max(0, now.getTime() - Date.parse(record.started_at ?? record.created_at)),
  ended_at: now.toISOString(),
});

export const lost = {
  code: "instance_lost",
  message: "The instance that ran it was lost; ask again, the conversation continues where it was",
};

const internal = {
  code: "internal",
  message: "The service failed; its log says why",
};

export const cancelled = (): ServiceError =>
  new ServiceError("turn_cancelled", "The completion was cancelled");

export const callerLeft = (): ServiceError =>
  new ServiceError(
    "turn_cancelled",
    "The caller left before the answer was complete, which cancels it; use wait false, or AGENT_MODE_ON_DISCONNECT=detach",
  );

export const shuttingDown = (): ServiceError =>
  new ServiceError(
    "draining",
    "The service is shutting down; ask again, the conversation continues where it was",
    { retryAfter: 5 },
  );

/** The answer to a completion with `wait`. */
export const answerOf = (record: CompletionRecord) => {
  const { uuid, status, result, session_id, cost_usd, duration_ms, num_turns, is_error, usage } = record;
  return {
    success: status === "completed",
    status,
    uuid,
    poll_url: null,
    result,
    session_id,
    cost_usd,
    duration_ms,
    num_turns,
    is_error,
    usage,
    error: record.error,
    code: record.error_code,
    completion: toCompletion(record),
  };
};

/** The answer to one without. */
export const queuedAnswer = (uuid: string) => ({
  success: true,
  status: "queued" as const,
  uuid,
  poll_url: `/completions/${uuid}`,
  result: null,
  session_id: null,
  cost_usd: null,
  duration_ms: null,
  num_turns: null,
  is_error: false,
  usage: null,
  error: null,
  code: null,
  completion: null,
});
