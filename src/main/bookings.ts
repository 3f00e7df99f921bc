import type { EndedTurn } from "../chat/engine.ts";
import type { Settings } from "../config/variables.ts";
import { finalStatuses } from "../contract/job.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { orAborted } from "../lib/wait.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { EndedRun, TelemetrySink } from "../telemetry/sink.ts";
import type { ServiceContext } from "./context.ts";
import { startRepeating } from "./retention.ts";

type Dependencies = Pick<ServiceContext, "now" | "log"> & {
  settings: Pick<Settings, "agentOauthToken">;
  store: Pick<JobStore, "due" | "get" | "update">;
  telemetry: Pick<TelemetrySink, "addRun">;
  /** Whether a job that another instance left unbooked belongs into the database of this one. */
  isOurs: (record: JobRecord) => boolean;
  /** Counts turns of agent mode that are lost. */
  dropped: (turns: number) => void;
};

/**
 * Books what runs cost in the telemetry database, each once, however often it is tried:
 *
 * - a job from its record, whose `booked` says whether it has been. What the end of the job, a lost instance or an outage
 *   of the database left unbooked is booked within seconds, by the next start at the latest, and before the record goes;
 * - a turn of agent mode at its end. It waits in memory while the database is unreachable.
 */
export const createBookings = (deps: Dependencies) => {
  const { store, telemetry, dropped, now, log } = deps;
  // With a subscription, costs are computed, not billed.
  const imputed = deps.settings.agentOauthToken !== null;
  const turns = new Map<string, EndedRun>();
  const booking = new Set<Promise<void>>();
  const warnings = createWarnOnce();

  const add = async (run: EndedRun): Promise<void> => {
    await telemetry.addRun(run).catch((err: unknown) => {
      if (!(err as { permanent?: boolean }).permanent) throw err;
      log.error({ err, run: run.id }, "what a run cost is not booked: the telemetry database refuses it");
    });
    warnings.clear("");
  };
  const bookJob = async (record: JobRecord): Promise<void> => {
    await add(jobRun(record, imputed));
    await store.update(record.id, { status: finalStatuses }, { booked: true }, { lazy: true });
  };
  const bookTurns = async (): Promise<void> => {
    for (const run of turns.values()) {
      await add(run);
      turns.delete(run.id);
    }
  };
  const bookLeft = async (signal: AbortSignal): Promise<void> => {
    await bookTurns();
    // Those that are left to another instance must not hide the others; what moves up meanwhile is the next round's.
    for (let seen = 0, ids: string[] = []; !signal.aborted; seen += ids.length) {
      ids = await store.due("unbooked", now().getTime() - settlingMs, seen);
      if (ids.length === 0) return;
      for (const id of ids) {
        const record = signal.aborted ? null : await store.get(id);
        if (record !== null && deps.isOurs(record)) await bookJob(record);
      }
    }
  };

  const inBackground = (work: Promise<void>): Promise<void> => {
    const done = work
      .catch((err: unknown) =>
        warnings.once("", () =>
          log.warn({ err }, "what runs cost cannot be booked at present; it is tried again"),
        ),
      )
      .finally(() => booking.delete(done));
    booking.add(done);
    return done;
  };
  const repeating = startRepeating((signal) => inBackground(bookLeft(signal)), intervalMs);

  return {
    jobEnded: (record: JobRecord): void => void inBackground(bookJob(record)),
    turnEnded: (turn: EndedTurn): void => {
      const run = turnRun(turn, imputed);
      turns.set(run.id, run);
      void inBackground(bookTurns());
      const [oldest = ""] = turns.keys();
      if (turns.size > maxTurns && turns.delete(oldest)) dropped(1);
    },
    /** Rejects while the database or the store is unreachable. */
    bookJob,
    /** Waits for what is being booked, but not for a database that does not answer. */
    close: async (): Promise<void> => {
      const stopped = Promise.all([repeating.stop(), ...booking]);
      await orAborted(stopped, AbortSignal.timeout(closeMs)).catch(() => undefined);
      dropped(turns.size);
      if (turns.size > 0)
        log.warn({ turns: turns.size }, "turns of agent mode are not in the usage: they could not be booked");
    },
  };
};

const intervalMs = 15_000;

/** Age at which the end of a job is seen as left behind, ms: a younger one is probably being booked. */
const settlingMs = 5000;

/** Most turns that wait in memory. */
const maxTurns = 10_000;

const closeMs = 3000;

const jobRun = (record: JobRecord, imputed: boolean): EndedRun => ({
  id: record.id,
  kind: "job",
  ended_at: record.ended_at ?? record.created_at,
  status: record.status,
  failure_reason: record.failure_reason,
  profile: record.profile,
  repo_url: record.repo_url,
  model: record.model ?? "",
  principal: record.principal,
  cost_usd: record.cost_usd ?? 0,
  estimated: record.cost_estimated,
  imputed,
  ...tokensOf(record.usage),
  turns: record.num_turns ?? 0,
  duration_ms: record.duration_ms ?? 0,
});

const turnRun = (
  { id, endedAt, profile, principal, model, outcome }: EndedTurn,
  imputed: boolean,
): EndedRun => ({
  id,
  kind: "chat",
  ended_at: endedAt.toISOString(),
  status: outcome.ok ? "succeeded" : outcome.reason === null ? "cancelled" : "failed",
  failure_reason: outcome.reason,
  profile,
  repo_url: "",
  model: outcome.model ?? model ?? "",
  principal,
  cost_usd: outcome.costUsd ?? 0,
  estimated: outcome.costEstimated,
  imputed,
  ...tokensOf(outcome.usage),
  turns: outcome.numTurns ?? 0,
  duration_ms: outcome.durationMs,
});

const tokensOf = (usage: JobRecord["usage"]) => ({
  input_tokens: usage?.input_tokens ?? 0,
  output_tokens: usage?.output_tokens ?? 0,
  cache_creation_tokens: usage?.cache_creation_input_tokens ?? 0,
  cache_read_tokens: usage?.cache_read_input_tokens ?? 0,
});
