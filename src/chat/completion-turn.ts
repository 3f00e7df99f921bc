import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { isUnfinished, type CompletionRecord, type CompletionStore } from "../store/completion-store.ts";
import type { EventBus } from "../store/event-bus.ts";
import { digestOf } from "./answer-digest.ts";
import { createAccount, createTeller } from "./completion-events.ts";
import { cancelled, completedBy, failedBy, internal } from "./completion-outcome.ts";
import type { RecordWriter } from "./completion-record.ts";
import type { Engine, EngineTurn } from "./engine.ts";
import { endedBy } from "./turn-failure.ts";

type Dependencies = {
  engine: Pick<Engine, "run">;
  store: Pick<CompletionStore, "get">;
  bus: EventBus;
  write: RecordWriter;
  now: () => Date;
  log: Log;
  /** How often it is looked whether another instance has cancelled the completion, ms. */
  watchMs: number;
};

export type Run = {
  /** As it was created. */
  record: CompletionRecord;
  ask: Omit<EngineTurn, "onEvents" | "onSession" | "signal" | "answerDigest">;
  /** Aborted with a `ServiceError` that says why. */
  stop: AbortController;
  progress: ((message: string) => void) | undefined;
};

/** Runs a completion that has been created, from its begin on the bus to the end of its record. Never rejects. */
export const createCompletionTurn =
  (deps: Dependencies) =>
  async (run: Run): Promise<CompletionRecord> => {
    const { now, bus, write } = deps;
    const { uuid } = run.record;
    await bus.begin(uuid);
    const started = { status: "running", started_at: now().toISOString() } as const;
    const running = { ...run.record, ...started };
    const over = new AbortController();
    // The agent does not wait for the store. What is written last says all of it again, and once only.
    void write(running, started, over.signal).then((result) => {
      if (result === "refused") run.stop.abort(cancelled());
    });
    const account = createAccount();
    const end = { ...started, ...(await endOf(deps, { run, running, account })) };
    over.abort();
    const ended = { ...running, ...end };
    const result = await write(running, end);
    const stored = result === "refused" ? await deps.store.get(uuid).catch(() => null) : null;
    // Whoever else has ended it has told so. When an answer was lost the other one was us.
    if (stored !== null && stored.ended_at !== ended.ended_at) return isSame(stored, ended) ? stored : ended;
    publishEnd(bus, ended, now);
    return ended;
  };

const isSame = (one: CompletionRecord, other: CompletionRecord): boolean =>
  one.epoch === other.epoch && one.created_at === other.created_at;

/** Tells those who look on that nothing follows. */
export const publishEnd = (bus: EventBus, record: CompletionRecord, now: () => Date): void => {
  const entry = { ts: now().toISOString(), session_id: record.session_id ?? "", correlation_id: record.uuid };
  if (record.error !== null) bus.publish({ event_type: "error", content: record.error, ...entry });
  bus.publish({ event_type: "done", content: record.status, ...entry });
};

type Running = { run: Run; running: CompletionRecord; account: ReturnType<typeof createAccount> };

/** Asks the engine, and says what became of it. */
const endOf = async (
  deps: Dependencies,
  { run, running, account }: Running,
): Promise<Partial<CompletionRecord>> => {
  const { engine, now, log } = deps;
  const { signal } = run.stop;
  const tellers = teller(deps, run, account);
  const stopWatching = watch(deps, run);
  try {
    signal.throwIfAborted();
    const answerDigest = ({ text }: { text: string }): string => digestOf(text);
    return completedBy(await engine.run({ ...run.ask, ...tellers, signal, answerDigest }), now());
  } catch (error) {
    const failure = signal.aborted ? endedBy(signal) : error;
    const isTold = failure instanceof ServiceError && failure.code !== "internal";
    if (!isTold) log.error({ err: failure, completion: running.uuid }, "a completion failed");
    return { ...account.known, ...failedBy(isTold ? failure : internal, running, now()) };
  } finally {
    stopWatching();
  }
};

/** Tells those who look on, and the caller who waits, what the agent does. */
const teller = (
  deps: Dependencies,
  { record, progress }: Run,
  account: Running["account"],
): Pick<EngineTurn, "onEvents" | "onSession"> => {
  const bus = createTeller(deps, record.uuid);
  return {
    onSession: (sessionId) => {
      account.begin(sessionId);
      bus.onSession(sessionId);
    },
    onEvents: (events) => {
      events.forEach(account.add);
      bus.onEvents(events);
      try {
        for (const event of events) if (event.type === "tool_use") progress?.(`Uses ${event.name}`);
      } catch (err) {
        deps.log.error({ err, completion: record.uuid }, "the progress of a completion could not be told");
      }
    },
  };
};

/** Stops the turn when another instance has ended it. Returns how to leave off. */
const watch = ({ store, watchMs }: Dependencies, { record, stop }: Run): (() => void) => {
  const look = async (): Promise<void> => {
    const stored = await store.get(record.uuid).catch(() => null);
    if (stored === null) return;
    if (!isSame(stored, record) || !isUnfinished(stored)) stop.abort(cancelled());
  };
  const timer = setInterval(() => void look(), watchMs);
  return () => clearInterval(timer);
};
