import { isFinal } from "../contract/job.ts";
import { failureOf } from "../kv/failure.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { canGoOn, type JobRecord } from "../store/job-record.ts";
import type { UnsettledRun } from "../store/job-store.ts";
import type { Presence } from "./membership.ts";
import type { QueueEntry } from "./queue.ts";
import { queueDue } from "./recovery.ts";
import { endJob, settle, type Settling } from "./settle.ts";
import type { Credential } from "./worker.ts";

type Dependencies = Settling & {
  presence: Presence;
  settings: { podName: string; lostInstanceGrace: number };
  /** This start of the instance. */
  epoch: string;
  credential: Pick<Credential, "digest">;
  /** Ids of jobs that this instance claims, works on or settles; null: unknown at present. */
  ownRuns: () => ReadonlySet<string> | null;
};

/** Interval at which waiting jobs are checked, and the age from which they are: a younger one may just be on its way, ms. */
const queueInterval = 5000;

/** Waiting jobs checked in one round. */
const maxPerRound = 200;

/** How long a run of this start must be unknown here, over consecutive rounds, to count as abandoned, ms. */
const unknownFor = 2000;

/** Acts for lost instances. Every instance does it: each step is a compare-and-set, so doing it twice does no harm. */
export const createSweep = (deps: Dependencies) => {
  const { store, presence, settings, log } = deps;
  const warnings = createWarnOnce();
  let unknownSince = new Map<string, number>();
  let queueCheckedAt = Number.NEGATIVE_INFINITY;
  /** Where the next check of waiting jobs begins: it cycles through them, so that none is starved. */
  let from = 0;

  /** Rejects when the store fails. A record that cannot be read does not block the others: it is warned of once. */
  const forEach = async <Item extends { id: string }>(
    items: readonly Item[],
    step: (record: JobRecord, item: Item) => Promise<void>,
  ): Promise<void> => {
    const checkOne = async (item: Item): Promise<void> => {
      try {
        const record = await store.get(item.id);
        if (record !== null) await step(record, item);
      } catch (err) {
        if (failureOf(err) !== "value") throw err;
        warnings.once(item.id, () => log.warn({ err, job: item.id }, "the job cannot be checked"));
      }
    };
    await Promise.all(items.map(checkOne));
  };

  /** Settles runs of this start that this instance does not know. */
  const settleUnknown = async (runs: readonly UnsettledRun[]): Promise<void> => {
    const own = deps.ownRuns();
    const unknown = runs.filter(({ id, epoch }) => epoch === deps.epoch && own?.has(id) === false);
    const now = performance.now();
    unknownSince = new Map(unknown.map(({ id }) => [id, unknownSince.get(id) ?? now]));
    const abandoned = unknown.filter(({ id }) => now - (unknownSince.get(id) ?? now) >= unknownFor);
    await forEach(abandoned, (record) => settleUnknownRun(deps, record));
  };

  /** Settles runs of lost instances: callers get the outcome now. The instance cleans up after them when it is back. */
  const settleLost = async (runs: readonly UnsettledRun[]): Promise<void> => {
    presence.noteMissing(runs.map(({ podName }) => podName));
    const now = deps.now().getTime();
    const isDue = ({ podName, keptUntil }: UnsettledRun): boolean =>
      presence.isLost(podName) && (keptUntil === null || keptUntil <= now);
    await forEach(runs.filter(isDue), async (record, { epoch, keptUntil }) => {
      // Another instance may have settled it in the meantime.
      if (record.instance_epoch !== epoch || isFinal(record.status) !== (keptUntil !== null)) return;
      // The run of an ended job is waited for as long as its record is kept.
      const cleaned = keptUntil === null ? null : { requeue: false, patch: {} };
      await settle(deps, record, { kind: "lost", cleaned });
    });
  };

  /** Whether there are any. */
  const checkRuns = async (): Promise<boolean> => {
    const runs = await store.unsettled();
    await settleUnknown(runs);
    await settleLost(runs.filter(({ podName }) => podName !== settings.podName));
    return runs.length > 0;
  };

  /** One that is to run and not just on its way into the queue. */
  const isWaiting = (record: JobRecord): boolean =>
    canGoOn(record, deps.now().getTime()) ||
    (record.status === "queued" &&
      record.held === null &&
      Date.parse(record.created_at) < deps.now().getTime() - queueInterval);

  /** Whether no limit of this instance's credential is reached: it can run jobs that are held for that of another one. */
  const isFree = async (): Promise<boolean> =>
    ((await store.limitedUntil(deps.credential.digest)) ?? 0) <= deps.now().getTime();

  const isHeldForOther = ({ held, limit, bound_to: boundTo }: JobRecord): boolean =>
    held !== null &&
    limit?.credential !== deps.credential.digest &&
    (boundTo === null || boundTo === settings.podName);

  /** Sees to it that each job that is to run has a queue entry, and that none waits for an instance for ever. */
  const checkQueue = async (): Promise<void> => {
    const ids = await store.ids("queued", maxPerRound, from);
    const resumable = await store.due("resumable", deps.now().getTime());
    const isFreeHere = await isFree();
    const waiting: QueueEntry[] = [];
    await forEach(
      [...new Set([...ids, ...resumable])].map((id) => ({ id })),
      async (record) => {
        const { id, bound_to: boundTo } = record;
        if (isFreeHere && isHeldForOther(record)) waiting.push({ id, boundTo: settings.podName });
        if (!isWaiting(record)) return;
        if (boundTo !== null) presence.noteMissing([boundTo]);
        if (boundTo === null || !presence.isLost(boundTo)) waiting.push({ id, boundTo });
        else if (presence.missingFor(boundTo) < settings.lostInstanceGrace * 1000)
          await warnOfWait(deps, record, boundTo);
        else await rescue(deps, record, boundTo);
      },
    );
    await deps.queue.add(...waiting);
    from = ids.length < maxPerRound ? 0 : from + maxPerRound;
  };

  return {
    /** One round, to be repeated about every second. Whether there are runs. Rejects when the store fails. */
    round: async (): Promise<boolean> => {
      try {
        await presence.refresh();
        const areRuns = await checkRuns();
        if (performance.now() - queueCheckedAt < queueInterval) return areRuns;
        await checkQueue();
        queueCheckedAt = performance.now();
        return areRuns;
      } catch (error) {
        if (failureOf(error) !== "unreachable") throw error;
        // Earlier readings may come from a store that was about to become unreachable.
        presence.forget();
        unknownSince.clear();
        throw error;
      }
    },
    /** A round of an instance that shares its store with no other. Rejects when the store fails. */
    ownRound: async (): Promise<void> => {
      await settleUnknown(await store.unsettled());
      await queueDue(deps);
    },
  };
};

/**
 * A run whose claim succeeded although the reply was lost, and whose queue entry another job has replaced; or whose end the
 * store has lost again. Without an epoch, a run that begins in this moment finds that it does not own the job.
 */
const settleUnknownRun = async (deps: Dependencies, record: JobRecord): Promise<void> => {
  if (record.instance_epoch !== deps.epoch || deps.ownRuns()?.has(record.id) !== false) return;
  const cleaned = { requeue: record.process === null, patch: { instance_epoch: null } };
  await settle(deps, record, { kind: "lost", cleaned });
};

/** Readers of the job then know what it waits for. */
const warnOfWait = async (deps: Dependencies, { id, warnings, request }: JobRecord, name: string) => {
  const then = request.session_id === "" ? "it fails" : "it continues on another instance";
  const warning = `It waits for the instance ${name}, on whose disk its worktree is and which does not answer; ${then} when ${name} has been unreachable for ${deps.settings.lostInstanceGrace} s`;
  if (warnings.includes(warning)) return;
  await deps.store.update(id, { status: ["queued", "running"] }, (current) =>
    current.warnings.includes(warning) ? {} : { warnings: [...current.warnings, warning] },
  );
};

/**
 * A session can continue on another instance, from its branch; a worktree that was asked for by name is lost with its own, and
 * with it what a parked job has done.
 */
const rescue = async (deps: Dependencies, record: JobRecord, boundTo: string): Promise<void> => {
  const { store, queue, settings, log } = deps;
  const { id, request, status } = record;
  if (request.session_id !== "" && status === "queued") {
    await queue.remove({ id, boundTo });
    const freed = await store.update(id, { status: ["queued"] }, { bound_to: null });
    if (freed !== null) await queue.add({ id, boundTo: null });
    log.info({ job: id, instance: boundTo }, "job of a lost instance's worktree may run anywhere now");
    return;
  }
  const given = {
    failure_reason: "worktree_failed",
    retryable: false,
    error: `The instance ${boundTo}, on whose disk the worktree is, has not been there for ${settings.lostInstanceGrace} s; prepare another worktree`,
  } as const;
  if (status === "queued") await endJob(deps, id, "giveUp", () => given);
  else await endJob(deps, id, "fail", (current) => (canGoOn(current, deps.now().getTime()) ? given : null));
};
