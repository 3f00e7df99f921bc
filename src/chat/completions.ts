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
import {
  answerOf,
  callerLeft,
  cancelled,
  failedBy,
  lost,
  queuedAnswer,
  shuttingDown,
} from "./completion-outcome.ts";
import { createRecordWriter, usualPatience, type Patience } from "./completion-record.ts";
import { createCompletionTurn, publishEnd, type Run } from "./completion-turn.ts";
import type { Engine, Permit } from "./engine.ts";

type Options = {
  engine: Engine;
  store: CompletionStore;
  bus: EventBus;
  agentPackage: Pick<AgentPackage, "name" | "read">;
  settings: { agentModeOnDisconnect: DisconnectPolicy };
  instance: { podName: string; epoch: string };
  now: () => Date;
  log: Log;
  patience?: Patience;
  /** How often it is looked whether another instance has cancelled a completion of this one, ms. */
  watchMs?: number;
};

type Handler<Name extends keyof Operations> = Handlers<Operations>[Name];

export type Completions = {
  submit: Handler<"agent_completions">;
  get: Handler<"get_completion">;
  list: Handler<"list_completions">;
  cancel: Handler<"cancel_completion">;
  /**
   * Fails what an earlier start of this instance, or an instance that is not living, has left queued or running; also what
   * this start has but does not know of, since the answer of the store was lost. To be called at the start and from time to
   * time. Resolves to how many there were.
   */
  settleLost: (isLiving: (run: { podName: string; epoch: string }) => boolean) => Promise<number>;
  /** Takes no more, and stops those under way; resolves when their records are written, or that was given up. */
  stop: () => Promise<void>;
};

/** A completion of this instance; `ended` never rejects. */
type Active = { run: Run; ended: Promise<CompletionRecord> };

type Submission = Parameters<Completions["submit"]>[0];

/** What the operations of `contract/completion.ts` do. */
export const createCompletions = (options: Options): Completions => {
  const { engine, store, bus, agentPackage, settings, instance, now, log } = options;
  const active = new Map<string, Active>();
  const write = createRecordWriter({ store, log, patience: options.patience ?? usualPatience });
  const complete = createCompletionTurn({ ...options, write, watchMs: options.watchMs ?? 2000 });
  let stopping = false;

  const newRun = (loaded: LoadedAgent, input: Submission, context: RequestContext): Run => {
    const model = input.model === "" ? null : loaded.cliModel(input.model);
    if (model === undefined) throw unknownModel(input.model, loaded);
    const said = [{ type: "text" as const, text: input.message }];
    return {
      record: newRecord(input, input.model || (loaded.models[0] ?? null), { ...instance, now: now() }),
      ask: {
        ifBusy: "wait",
        conversation: input.stateless
          ? null
          : conversationKey(agentPackage.name, context.principal, input.uuid),
        news: said,
        whole: said,
        appendSystemPrompt: input.system_prompt || loaded.systemPrompt || null,
        model,
        effort: input.effort === "" ? null : input.effort,
        maxTurns: input.max_turns === 0 ? null : input.max_turns,
        disabledMcpServers: [],
        timeoutSeconds: input.timeout === 0 ? loaded.timeoutSeconds : input.timeout,
      },
      stop: new AbortController(),
      progress: input.wait ? context.progress : undefined,
    };
  };

  /** Creates the record and runs it, in a place for a turn that is given back at the end. */
  const start = async (run: Run, slot: Permit): Promise<Active> => {
    const { uuid } = run.record;
    const { promise: ended, resolve } = Promise.withResolvers<CompletionRecord>();
    const entry = { run, ended };
    const leave = (record: CompletionRecord): void => {
      slot.release();
      active.delete(uuid);
      resolve(record);
    };
    // Before it is created: what is in the store is known here.
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

  const found = async (uuid: string): Promise<CompletionRecord> => {
    const record = completionIdForm.test(uuid) ? await store.get(uuid) : null;
    if (record === null) throw unknown(uuid);
    return record;
  };

  /** Ends a record that no turn of this instance is about. */
  const endOthers = async (record: CompletionRecord, failure: { code: string; message: string }) => {
    const changes = failedBy(failure, record, now());
    const isEnded = await store.update(record.uuid, record.epoch, changes);
    if (isEnded) publishEnd(bus, { ...record, ...changes }, now);
    return isEnded;
  };

  return {
    submit: async (input, context) => {
      if (stopping) throw shuttingDown();
      const run = newRun(await agentPackage.read(), input, context);
      if (active.has(input.uuid)) throw alreadyRunning(input.uuid);
      const { ended } = await start(run, engine.admit());
      if (!input.wait) return queuedAnswer(input.uuid);
      const forget = stopWhenGone(run.stop, context.signal, settings.agentModeOnDisconnect);
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
      if (isUnfinished(record)) await endOthers(record, cancelled());
      return { success: true, completion: toCompletion(await found(uuid)) };
    },

    settleLost: async (isLiving) => {
      let count = 0;
      for (const record of await store.unfinished()) {
        const { pod_name: podName, epoch, uuid } = record;
        const isHere = podName === instance.podName;
        const isUnderWay = isHere
          ? epoch === instance.epoch && active.has(uuid)
          : isLiving({ podName, epoch });
        if (!isUnderWay && (await endOthers(record, lost))) count += 1;
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

/** Applies the policy to a caller who leaves. Returns how to leave off. */
const stopWhenGone = (stop: AbortController, caller: AbortSignal, policy: DisconnectPolicy): (() => void) => {
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

/** Never that of a chat: what is hashed for those begins otherwise. */
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
