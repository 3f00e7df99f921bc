import { hash } from "node:crypto";
import type { DisconnectPolicy } from "../config/formats.ts";
import { completionIdForm } from "../contract/completion.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Handlers, RequestContext } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { Log } from "../lib/log.ts";
import type { AgentPackage, LoadedAgent } from "../profiles/agent-package.ts";
import {
  isUnfinished,
  toCompletion,
  type CompletionRecord,
  type CompletionStore,
} from "../store/completion-store.ts";
import type { EventBus } from "../store/event-bus.ts";
import type { VisibilityStore } from "../store/visibility-store.ts";
import { createAgentVisibility } from "./agent-visibility.ts";
import type { Spool } from "../store/spool.ts";
import { createRecordWriter, usualPatience, type Patience, type SpooledEnd } from "./completion-writer.ts";
import {
  answerOf,
  callerLeft,
  cancelled,
  failedBy,
  lost,
  queuedAnswer,
  shuttingDown,
  createCompletionTurn,
  publishEnd,
  type Run,
} from "./completion-turn.ts";
import { statusBefore, statusText } from "./delta.ts";
import type { Engine, Permit, RequireAgent } from "./engine.ts";
import { readSlashTokens } from "./slash-tokens.ts";

type Options = {
  engine: Engine;
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
  patience?: Patience;
  /** Interval of checks for a cancel by another instance, ms. */
  watchMs?: number;
};

type Handler<Name extends keyof Operations> = Handlers<Operations>[Name];

export type Completions = {
  submit: Handler<"agent_completions">;
  get: Handler<"get_completion">;
  list: Handler<"list_completions">;
  cancel: Handler<"cancel_completion">;
  /**
   * Writes the ends that are in the spool, then fails completions that an earlier start of this instance, or a lost instance, left queued or running; also those
   * that this start owns but does not know, since the store's reply was lost. Call it at start and periodically.
   * Resolves to how many there were.
   */
  settleLost: (
    isLiving: (run: { podName: string; epoch: string }) => boolean | Promise<boolean>,
  ) => Promise<number>;
  /** Accepts no more, and stops those in flight; resolves when their records are written, or given up. */
  stop: () => Promise<void>;
};

/** A completion of this instance; `ended` never rejects. */
type Active = { run: Run; ended: Promise<CompletionRecord> };

type Submission = Parameters<Completions["submit"]>[0];

/** The operations of `contract/completion.ts`. */
export const createCompletions = (options: Options): Completions => {
  const { engine, store, spool, bus, agentPackage, requireAgent, settings, instance, now, log } = options;
  const active = new Map<string, Active>();
  const write = createRecordWriter({ store, spool, log, patience: options.patience ?? usualPatience });
  const complete = createCompletionTurn({ ...options, write, watchMs: options.watchMs ?? 2000 });
  const visibility = createAgentVisibility(options.visibilities, agentPackage.name);
  let stopping = false;

  const newRun = (loaded: LoadedAgent, input: Submission, context: RequestContext): Run => {
    const model = input.model === "" ? null : loaded.cliModel(input.model);
    if (model === undefined) throw unknownModel(input.model, loaded);
    const said = [{ type: "text" as const, text: input.message }];
    return {
      record: newRecord(input, input.model || (loaded.models[0] ?? null), { ...instance, now: now() }),
      status: "",
      ask: {
        ifBusy: "wait",
        conversation: input.stateless
          ? null
          : conversationKey(agentPackage.name, context.principal, input.uuid),
        followUp: said,
        opening: said,
        appendSystemPrompt: input.system_prompt || loaded.systemPrompt || null,
        model,
        effort: input.effort === "" ? null : input.effort,
        maxTurns: input.max_turns === 0 ? null : input.max_turns,
        disabledMcpServers: [],
        principal: context.principal,
        timeoutSeconds: input.timeout === 0 ? loaded.timeoutSeconds : input.timeout,
      },
      stop: new AbortController(),
      progress: input.wait ? context.progress : undefined,
    };
  };

  /** Creates the record and runs it under a permit, which is released at the end. */
  const start = async (run: Run, permit: Permit): Promise<Active> => {
    const { uuid } = run.record;
    const { promise: ended, resolve } = Promise.withResolvers<CompletionRecord>();
    const entry = { run, ended };
    const leave = (record: CompletionRecord): void => {
      permit.release();
      active.delete(uuid);
      resolve(record);
    };
    // Before the record is created: this instance must know every record that it has in the store.
    active.set(uuid, entry);
    try {
      if (!(await store.create(run.record))) throw alreadyRunning(uuid);
    } catch (error) {
      leave(run.record);
      throw error;
    }
    void complete(run).then(leave);
    return entry;
  };

  /** Creates the record of a message of tokens alone, which needs no agent. */
  const answerAtOnce = async (run: Run, result: string): Promise<CompletionRecord> => {
    const at = run.record.created_at;
    const ended = { status: "completed", result, started_at: at, ended_at: at, duration_ms: 0 } as const;
    const record = { ...run.record, ...ended };
    if (!(await store.create(record))) throw alreadyRunning(record.uuid);
    publishEnd(bus, record, now);
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
    if (isEnded) publishEnd(bus, { ...record, ...changes }, now);
    return isEnded;
  };

  return {
    submit: async (input, context) => {
      if (stopping) throw shuttingDown();
      const loaded = await agentPackage.read();
      if (active.has(input.uuid)) throw alreadyRunning(input.uuid);
      const { text: message, tokens } = readSlashTokens(input.message);
      const run = newRun(loaded, { ...input, message }, context);
      const shown = await visibility.apply(tokens);
      run.status = statusBefore(shown, tokens);
      if (tokens.length > 0 && message.trim() === "") {
        const record = await answerAtOnce(run, statusText(shown));
        return input.wait ? answerOf(record) : queuedAnswer(input.uuid);
      }
      const { budgetDayUsd } = loaded;
      await requireAgent({ profile: agentPackage.profile, budgetDayUsd, principal: context.principal });
      if (active.has(input.uuid)) throw alreadyRunning(input.uuid);
      const { ended } = await start(run, engine.admit());
      if (!input.wait) return queuedAnswer(input.uuid);
      const forget = stopOnDisconnect(run.stop, context.signal, settings.agentModeOnDisconnect);
      return answerOf(await ended.finally(forget));
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
        turn.run.stop.abort(cancelled());
        return { success: true, completion: toCompletion(await turn.ended) };
      }
      if (isUnfinished(record)) await endForeign(record, cancelled());
      return { success: true, completion: toCompletion(await found(uuid)) };
    },

    settleLost: async (isLiving) => {
      await spool.replay(async ({ uuid, epoch, changes }) => {
        if (!(await store.update(uuid, epoch, changes))) return;
        publishEnd(bus, { session_id: null, error: null, status: "completed", ...changes, uuid }, now);
      });
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

    stop: async () => {
      stopping = true;
      for (const { run } of active.values()) run.stop.abort(shuttingDown());
      await Promise.all(Array.from(active.values(), ({ ended }) => ended));
    },
  };
};

/** Applies the disconnect policy to a caller who leaves. Returns a function that ends the watch. */
const stopOnDisconnect = (
  stop: AbortController,
  caller: AbortSignal,
  policy: DisconnectPolicy,
): (() => void) => {
  if (policy.kind === "detach") return () => undefined;
  let timer: NodeJS.Timeout | undefined;
  const leave = (): void => {
    if (policy.graceSeconds === 0) stop.abort(callerLeft());
    else timer = setTimeout(() => stop.abort(callerLeft()), policy.graceSeconds * 1000);
  };
  if (caller.aborted) leave();
  else caller.addEventListener("abort", leave, { once: true });
  return () => {
    clearTimeout(timer);
    caller.removeEventListener("abort", leave);
  };
};

/** Never equal to a chat's key: the hash input of those begins differently. */
const conversationKey = (agent: string, principal: string, uuid: string): string =>
  hash("sha256", JSON.stringify(["completion", agent, principal, uuid]));

const newRecord = (
  { uuid, meta }: Submission,
  model: string | null,
  { podName, epoch, now }: { podName: string; epoch: string; now: Date },
): CompletionRecord => ({
  uuid,
  status: "queued",
  result: null,
  session_id: null,
  cost_usd: null,
  cost_estimated: false,
  duration_ms: null,
  num_turns: null,
  is_error: false,
  created_at: now.toISOString(),
  started_at: null,
  ended_at: null,
  usage: null,
  model,
  error: null,
  error_code: null,
  meta,
  pod_name: podName,
  epoch,
});

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

const unknownModel = (model: string, { models }: LoadedAgent): ServiceError =>
  new ServiceError(
    "model_not_found",
    `The model ${JSON.stringify(model)} does not exist; use one of ${models.slice(0, 20).join(", ")}`,
  );
