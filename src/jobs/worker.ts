import type { Redactor } from "../lib/redact.ts";
import { orAborted } from "../lib/wait.ts";
import { canGoOn, isParked, type JobRecord } from "../store/job-record.ts";
import type { Locks } from "../store/locks.ts";
import type { Spool } from "../store/spool.ts";
import { type Execute, type Interruption, type Outcome, createRun } from "./run.ts";
import { claimIfFree, namesOf } from "./job-locks.ts";
import { writeOutcome, type Spooled } from "./outcomes.ts";
import type { Settling } from "./settle.ts";
import { claimed, held, resumed } from "./state.ts";

type Dependencies = Settling & {
  /** Locks on worktrees and agent sessions, across instances. */
  locks: Locks;
  spool: Spool<Spooled>;
  execute: Execute;
  instance: { podName: string; epoch: string };
  credential: Credential;
  settings: { lostInstanceGrace: number; questionLive: number; maxParallelJobs: number };
  redact: Redactor;
};

/** What agents of this instance use for the model. */
export type Credential = {
  /** Its digest: the same credential has the same limit, on each instance. */
  digest: string;
  /** Whether the job goes on with another one when the limit is reached. */
  canChange: (record: JobRecord) => Promise<boolean>;
};

/** Longest time in which a held question is parked, ms. */
const parkTimeout = 10_000;

/** A run of this instance. */
export type OwnRun = { id: string; attempt: number; retryLost: boolean; isResumed: boolean };

type Entry = OwnRun & {
  controller: AbortController;
  done: Promise<void>;
  /** Whether it has asked a person and has no answer: it is parked, or about to be. */
  isAsking: boolean;
};

/** Works on one job after another: claims the record, runs it, writes the outcome. The queue decides how many at once. */
export const createWorker = (deps: Dependencies) => {
  const { store, events, now, log } = deps;
  const running = new Map<string, Entry>();
  /** By what a run that has ended used: resolves once its outcome is written. */
  const endings = new Map<string, Promise<unknown>>();
  const stopping = new AbortController();

  /** Passed to the queue. */
  const work = async (id: string): Promise<"done" | "later"> => {
    const claim = await trackClaim(id, tryClaim(id));
    if (claim === "later" || claim === null) return claim ?? "done";
    const outcome = await runClaimed(claim.record, claim.entry);
    const ending = ended(claim, outcome);
    // A job to be run again keeps its queue entry. For any other, the outcome is written while the slot already works
    // on the next job.
    if (outcome.kind !== "requeue" && outcome.kind !== "parked") return "done";
    if ((await ending) === null) return "done";
    // Read anew: an answer in this moment finds the entry still active, and adds none.
    const after = await store.get(id);
    return after !== null && (after.status === "queued" || canGoOn(after, now().getTime()))
      ? "later"
      : "done";
  };

  /** Writes the outcome. Never rejects. Resolves to the job; null: unknown. */
  const ended = ({ record, names, entry }: Claim, outcome: Outcome): Promise<JobRecord | null> => {
    const finish = async (): Promise<JobRecord | null> => {
      const written = await writeOutcome(deps, record, outcome, stopping.signal).catch((err: unknown) => {
        log.error({ err, job: record.id }, "the outcome of the job is not written; the next start does it");
        return null;
      });
      entry.finish();
      return written;
    };
    const ending = finish().finally(() => {
      for (const name of names) if (endings.get(name) === ending) endings.delete(name);
    });
    for (const name of names) endings.set(name, ending);
    return ending;
  };

  const claims = new Map<Promise<unknown>, string>();

  /** A stop must wait for it: a claim in flight is a run a moment later. */
  const trackClaim = <Value>(id: string, claim: Promise<Value>): Promise<Value> => {
    claims.set(claim, id);
    return claim.finally(() => claims.delete(claim));
  };

  /** The claimed job; null: there is nothing to do; later: something it needs is in use. */
  const tryClaim = async (id: string): Promise<Claim | "later" | null> => {
    const found = await store.get(id);
    // While the service stops no run begins: the next start recovers the job.
    if (found === null || stopping.signal.aborted || isBoundToAnother(found)) return null;
    if (found.status === "queued" && (await holdAtLimit(found))) return null;
    return found.status === "queued" || canGoOn(found, now().getTime()) || wasClaimed(found)
      ? await claimAs(found)
      : null;
  };

  /** Whether it has to wait for the usage limit of this instance's credential. */
  const holdAtLimit = async (queued: JobRecord): Promise<boolean> => {
    const { digest: credential, canChange } = deps.credential;
    const until = await store.limitedUntil(credential);
    if (until === null || until <= now().getTime() || (await canChange(queued))) return false;
    const record = await held(store, queued, { credential, until }, now());
    if (record?.held)
      events.append(record.id, record.attempt, {
        type: "rate_limit",
        status: "waits",
        resets_at: record.held.until,
      });
    return true;
  };

  const claimAs = async (found: JobRecord): Promise<Claim | "later" | null> => {
    const names = namesOf(found);
    await Promise.all(names.flatMap((name) => endings.get(name) ?? []));
    return await claimIfFree(deps, found, async () => {
      // Its queue entry came twice.
      if (running.has(found.id)) return "later";
      const isNew = found.status === "queued";
      // Registered before the claim: a cancel at the same moment must find the run.
      const entry = register(found, isNew ? found.attempt + 1 : found.attempt);
      let record: JobRecord | null = null;
      try {
        const claim = isNew ? claimed : isParked(found) ? resumed : async () => found;
        record = await claim(store, found, { instance: deps.instance, at: now() });
        if (record?.status === "cancelled") entry.controller.abort("cancel" satisfies Interruption);
        return record === null ? null : { record, names, entry };
      } finally {
        if (record === null) entry.finish();
      }
    });
  };

  /** Another instance's queue is the right one for it. */
  const isBoundToAnother = ({ bound_to }: JobRecord): boolean =>
    bound_to !== null && bound_to !== deps.instance.podName;

  /** Claimed by this instance although the reply was lost: the run begins, or ends, now. */
  const wasClaimed = ({ id, status, unsettled, process, instance_epoch }: JobRecord): boolean =>
    (status === "running" || status === "cancelled") &&
    unsettled &&
    process === null &&
    instance_epoch === deps.instance.epoch &&
    !running.has(id);

  const register = (queued: JobRecord, attempt: number) => {
    const finished = Promise.withResolvers<void>();
    const entry = {
      id: queued.id,
      attempt,
      retryLost: queued.retry_lost,
      isResumed: isParked(queued),
      controller: new AbortController(),
      done: finished.promise,
      isAsking: false,
    };
    running.set(queued.id, entry);
    const finish = (): void => {
      if (running.get(queued.id) === entry) running.delete(queued.id);
      finished.resolve();
    };
    return Object.assign(entry, { finish });
  };

  /** Never rejects. */
  const runClaimed = async (record: JobRecord, entry: Entry): Promise<Outcome> => {
    if (record.resumed_at === null)
      events.append(record.id, record.attempt, {
        type: "stage",
        stage: "claimed",
        detail: deps.instance.podName,
      });
    const run = createRun({ ...deps, mustPark }, record, entry.controller.signal);
    const ask: typeof run.ask = async (waiting) => {
      entry.isAsking = true;
      const answer = await run.ask(waiting);
      entry.isAsking = answer === null;
      return answer;
    };
    return await run.completed(await deps.execute(record, { ...run, ask }).catch(asBug(record)));
  };

  /** Gives runs that have asked the time to be parked: an agent that is ended loses its question. */
  const parked = async (runs: Entry[]): Promise<void> => {
    for (const { id } of runs) deps.jobEnds.notify(id);
    await orAborted(Promise.all(runs.map((run) => run.done)), AbortSignal.timeout(parkTimeout)).catch(
      () => undefined,
    );
  };

  let isParking = false;
  const mustPark = async (): Promise<boolean> =>
    isParking ||
    (running.size >= deps.settings.maxParallelJobs &&
      (await store.ids("queued", 1).catch(() => [])).length > 0);

  const asBug =
    (record: JobRecord) =>
    (error: unknown): Outcome => {
      log.error({ err: error, job: record.id }, "running the job failed unexpectedly");
      const message = `Internal error: ${error instanceof Error ? error.message : String(error)}; see the service's log`;
      return { kind: "failed", patch: { failure_reason: "internal", retryable: true, error: message } };
    };

  return {
    work,
    /** Ends this run of a job for this reason, if it is on this instance: a later one is another matter. */
    interrupt: ({ id, attempt }: Pick<OwnRun, "id" | "attempt">, reason: Interruption = "cancel"): void => {
      const entry = running.get(id);
      if (entry?.attempt === attempt) entry.controller.abort(reason);
    },
    /** Whether questions are not held, but parked at once. */
    park: (isWanted: boolean): void => {
      isParking = isWanted;
    },
    /** Resolves when no run is left, or the signal aborts. */
    idle: async (signal: AbortSignal): Promise<void> => {
      const all = async (): Promise<void> => {
        await Promise.allSettled(claims.keys());
        while (running.size > 0) await Promise.all([...running.values()].map((run) => run.done));
      };
      await orAborted(all(), signal).catch(() => undefined);
    },
    /** Ends every run and waits until all are settled. */
    stop: async (): Promise<void> => {
      stopping.abort();
      isParking = true;
      await Promise.allSettled(claims.keys());
      const runs = [...running.values()];
      await parked(runs.filter(({ isAsking }) => isAsking));
      for (const { controller } of runs) controller.abort("shutdown" satisfies Interruption);
      await Promise.all(runs.map((run) => run.done));
    },
    runs: (): OwnRun[] => [...running.values()],
    /** A claim in flight counts. */
    runningCount: (): number => new Set([...running.keys(), ...claims.values()]).size,
  };
};

export type Worker = ReturnType<typeof createWorker>;

type Claim = { record: JobRecord; names: string[]; entry: Entry & { finish: () => void } };
