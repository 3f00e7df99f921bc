import { hash } from "node:crypto";
import { z } from "zod";
import type { DisconnectPolicy } from "../config/formats.ts";
import { completionIdForm } from "../contract/completion.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Handlers, RequestContext } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { Log } from "../lib/log.ts";
import type { AgentPackage, LoadedAgent } from "../profiles/agent-package.ts";
import {
  CompletionRecord,
  isUnfinished,
  toCompletion,
  type CompletionStore,
} from "../store/completion-store.ts";
import type { EventBus } from "../store/event-bus.ts";
import { parseWith } from "../store/records.ts";
import { openSpool, type Spool } from "../store/spool.ts";
import type { VisibilityStore } from "../store/visibility-store.ts";
import { createAgentVisibility } from "./agent-visibility.ts";
import { digestOf } from "./answer-digest.ts";
import {
  answerOf,
  changesBy,
  endOf,
  failedBy,
  isSame,
  lost,
  newRecord,
  queuedAnswer,
} from "./completion-record.ts";
import { statusBefore, statusText } from "./delta.ts";
import type { Engine, EngineEvent, EngineTurn, RequireAgent } from "./engine.ts";
import { unknownModel } from "./failure.ts";
import { followTurn, publishEnd } from "./follow-turn.ts";
import { createReaders } from "./turn.ts";
import { readSlashTokens } from "./slash-tokens.ts";

type Options = {
  engine: Pick<Engine, "admit" | "run">;
  store: CompletionStore;
  spool: Spool<SpooledEnd>;
  bus: EventBus;
  agentPackage: Pick<AgentPackage, "name" | "profile" | "read">;
  visibilities: VisibilityStore;
  requireAgent: RequireAgent;
  settings: { agentModeOnDisconnect: DisconnectPolicy };
  instance: { podName: string; epoch: string };
  now: () => Date;
  log: Log;
};

type Handler<Name extends keyof Operations> = Handlers<Operations>[Name];

export type Completions = {
  submit: Handler<"agent_completions">;
  get: Handler<"get_completion">;
  list: Handler<"list_completions">;
  cancel: Handler<"cancel_completion">;
  /**
   * Makes records and turns agree; call it at start and every few seconds. Writes the ends that are in the spool. Stops
   * turns that another instance has cancelled. Fails completions that an earlier start of this instance, or a lost
   * instance, left queued or running, also those that this start owns but does not know, since the store's reply was
   * lost: resolves to how many.
   */
  settle: (
    isLiving: (run: { podName: string; epoch: string }) => boolean | Promise<boolean>,
  ) => Promise<number>;
  /** Resolves when the turns in flight, which the engine ends, are on record. */
  stop: () => Promise<void>;
};

/** How a completion ended, until the store takes it. */
const SpooledEnd = z.object({
  uuid: z.string().regex(completionIdForm),
  epoch: z.string(),
  changes: CompletionRecord.partial() as z.ZodType<Partial<CompletionRecord>>,
});
type SpooledEnd = z.infer<typeof SpooledEnd>;

export const openCompletionSpool = (directory: string, log: Log): Promise<Spool<SpooledEnd>> =>
  openSpool({
    directory,
    nameOf,
    parse: parseWith(SpooledEnd, (end, name) => nameOf(end) === name),
    noun: "end of a completion",
    log,
  });

const nameOf = ({ uuid, epoch }: SpooledEnd): string => hash("sha256", `${epoch} ${uuid}`);

/** A completion of this instance. `isStored`: its record was created. `ended` never rejects. */
type Active = {
  record: CompletionRecord;
  isStored: boolean;
  stop: AbortController;
  ended: Promise<CompletionRecord>;
};

/** The operations of `contract/completion.ts`: each completion is a record and a turn. */
export const createCompletions = (options: Options): Completions => {
  const { engine, store, agentPackage, requireAgent, settings, instance, now } = options;
  const active = new Map<string, Active>();
  const visibility = createAgentVisibility(options.visibilities, agentPackage.name);

  /** Creates the record and runs it. The engine's permit is released at the end. */
  const start = async (
    record: CompletionRecord,
    run: (stop: AbortController) => Promise<CompletionRecord>,
  ): Promise<Active> => {
    const release = engine.admit();
    const { promise: ended, resolve } = Promise.withResolvers<CompletionRecord>();
    const entry = { record, isStored: false, stop: new AbortController(), ended };
    const leave = (final: CompletionRecord): void => {
      release();
      active.delete(record.uuid);
      resolve(final);
    };
    // Before the record is created: this instance must know every record that it has in the store.
    active.set(record.uuid, entry);
    try {
      if (!(await store.create(record))) throw alreadyRunning(record.uuid);
      entry.isStored = true;
    } catch (error) {
      leave(record);
      throw error;
    }
    void run(entry.stop).then(leave);
    return entry;
  };

  /** Creates the record of a message of tokens alone, which needs no agent. */
  const answerAtOnce = async (queued: CompletionRecord, result: string): Promise<CompletionRecord> => {
    const at = queued.created_at;
    const ended = { status: "completed", result, started_at: at, ended_at: at, duration_ms: 0 } as const;
    const record = { ...queued, ...ended };
    if (!(await store.create(record))) throw alreadyRunning(record.uuid);
    publishEnd(options, record.uuid, endOf(record));
    return record;
  };

  const found = async (uuid: string): Promise<CompletionRecord> => {
    const record = completionIdForm.test(uuid) ? await store.get(uuid) : null;
    if (record === null) throw unknown(uuid);
    return record;
  };

  /** Ends a record that no turn of this instance works on. */
  const endForeign = async (record: CompletionRecord, failure: { code: string; message: string }) => {
    const changes = failedBy(failure, record, now());
    const isEnded = await store.update(record.uuid, record.epoch, changes);
    if (isEnded) publishEnd(options, record.uuid, endOf({ ...record, ...changes }));
    return isEnded;
  };

  const stopCancelled = async ({ record, isStored, stop }: Active): Promise<void> => {
    const stored = isStored ? await store.get(record.uuid) : null;
    if (stored !== null && !(isSame(stored, record) && isUnfinished(stored))) stop.abort(cancelled());
  };

  return {
    submit: async (input, context) => {
      const loaded = await agentPackage.read();
      const { text: message, tokens } = readSlashTokens(input.message);
      const ask = askOf({ ...input, message }, loaded, context.principal, agentPackage.name);
      const record = newRecord(input, input.model || (loaded.models[0] ?? null), instance, now());
      const shown = await visibility.apply(tokens);
      if (tokens.length > 0 && message.trim() === "") {
        const answered = await answerAtOnce(record, statusText(shown));
        return input.wait ? answerOf(answered) : queuedAnswer(record);
      }
      const { budgetDayUsd } = loaded;
      await requireAgent({ profile: agentPackage.profile, budgetDayUsd, principal: context.principal });
      if (active.has(input.uuid)) throw alreadyRunning(input.uuid);
      const status = statusBefore(shown, tokens);
      const progress = input.wait ? context.progress : undefined;
      const run = (stop: AbortController) => complete(options, { record, ask, status, stop, progress });
      const { stop, ended } = await start(record, run);
      if (!input.wait) return queuedAnswer(record);
      const onAbandoned = (): void => stop.abort(callerLeft());
      const readers = createReaders({ policy: settings.agentModeOnDisconnect, minGrace: 0, onAbandoned });
      readers.enter(context.signal);
      return answerOf(await ended.finally(readers.close));
    },

    get: async ({ uuid }) => ({ success: true, completion: toCompletion(await found(uuid)) }),

    list: async (query) => {
      const completions = (await store.list(query)).map(toCompletion);
      return { success: true, count: completions.length, completions };
    },

    cancel: async ({ uuid }) => {
      const record = await found(uuid);
      const turn = active.get(uuid);
      if (turn !== undefined) {
        turn.stop.abort(cancelled());
        return { success: true, completion: toCompletion(await turn.ended) };
      }
      if (isUnfinished(record)) await endForeign(record, cancelled());
      return { success: true, completion: toCompletion(await found(uuid)) };
    },

    settle: async (isLiving) => {
      await options.spool.replay(async ({ uuid, epoch, changes }) => {
        if (!(await store.update(uuid, epoch, changes))) return;
        publishEnd(options, uuid, endOf({ session_id: null, error: null, status: "completed", ...changes }));
      });
      await Promise.all(Array.from(active.values(), stopCancelled));
      let count = 0;
      for (const record of await store.unfinished()) {
        const { pod_name: podName, epoch, uuid } = record;
        const isHere = podName === instance.podName;
        const isUnderWay = isHere
          ? epoch === instance.epoch && active.has(uuid)
          : await isLiving({ podName, epoch });
        if (!isUnderWay && (await endForeign(record, lost))) count += 1;
      }
      return count;
    },

    stop: async () => void (await Promise.all(Array.from(active.values(), ({ ended }) => ended))),
  };
};

type Run = {
  /** As it was created. */
  record: CompletionRecord;
  ask: Omit<EngineTurn, "signal" | "answerDigest">;
  /** Text before the answer. */
  status: string;
  /** Aborted with a `ServiceError` that says why. */
  stop: AbortController;
  progress: RequestContext["progress"];
};

/** Runs a created completion, from its first event on the bus to the end of its record. Never rejects. */
const complete = async (options: Options, run: Run): Promise<CompletionRecord> => {
  const { store, spool, now, log } = options;
  const { record, stop } = run;
  const { uuid, epoch } = record;
  const started = { status: "running", started_at: now().toISOString() } as const;
  const running = { ...record, ...started };
  // The agent does not wait for the store. What is not written now is written with the end.
  void store.update(uuid, epoch, started).then(
    (isWritten) => isWritten || stop.abort(cancelled()),
    () => undefined,
  );
  let text = "";
  const take = (event: EngineEvent): void => {
    if (event.type === "ended") ({ text } = event.outcome);
    if (event.type === "tool_use") report(log, run, `Uses ${event.name}`);
  };
  const ask = { ...run.ask, signal: stop.signal, answerDigest: () => digestOf(text) };
  const end = await followTurn(options, { ask, take, publishAs: uuid, ids: { completion: uuid } });
  const changes = { ...started, ...changesBy(end, running, run.status + text, now()) };
  const ended = { ...running, ...changes };
  const isWritten = await store.update(uuid, epoch, changes).catch(async (err: unknown) => {
    const message = "the end of a completion cannot be stored at present; it is kept on disk and tried again";
    log.error({ err, completion: uuid, status: ended.status }, message);
    await spool.add({ uuid, epoch, changes });
    return true;
  });
  const other = isWritten ? null : await store.get(uuid).catch(() => null);
  // Who ended the record has published that.
  if (other !== null && other.ended_at !== ended.ended_at) return isSame(other, ended) ? other : ended;
  publishEnd(options, uuid, endOf(ended));
  return ended;
};

/** Tells the caller who waits. */
const report = (log: Log, { record, progress }: Run, message: string): void => {
  try {
    progress?.(message);
  } catch (err) {
    log.error({ err, completion: record.uuid }, "the progress of a completion could not be published");
  }
};

const askOf = (
  input: Parameters<Completions["submit"]>[0],
  loaded: LoadedAgent,
  principal: string,
  agent: string,
): Omit<EngineTurn, "signal" | "answerDigest"> => {
  const model = input.model === "" ? null : loaded.cliModel(input.model);
  if (model === undefined) throw unknownModel(input.model, loaded);
  const said = [{ type: "text" as const, text: input.message }];
  // Never equal to a chat's key: the hash input of those begins differently.
  const key = hash("sha256", JSON.stringify(["completion", agent, principal, input.uuid]));
  return {
    ifBusy: "wait",
    conversation: input.stateless ? null : key,
    followUp: said,
    opening: said,
    appendSystemPrompt: input.system_prompt || loaded.systemPrompt || null,
    model,
    effort: input.effort === "" ? null : input.effort,
    maxTurns: input.max_turns === 0 ? null : input.max_turns,
    disabledMcpServers: [],
    principal,
    timeoutSeconds: input.timeout === 0 ? loaded.timeoutSeconds : input.timeout,
  };
};

const cancelled = (): ServiceError => new ServiceError("turn_cancelled", "The completion was cancelled");

const callerLeft = (): ServiceError =>
  new ServiceError(
    "turn_cancelled",
    "The caller left before the answer was complete, which cancels it; use wait false, or AGENT_MODE_ON_DISCONNECT=detach",
  );

const unknown = (uuid: string): ServiceError =>
  new ServiceError(
    "completion_not_found",
    `There is no completion ${uuid.slice(0, 200)}; GET /completions lists those there are`,
  );

const alreadyRunning = (uuid: string): ServiceError =>
  new ServiceError(
    "completion_running",
    `The completion ${uuid} is queued or running; wait for its end, cancel it, or use another uuid`,
  );
