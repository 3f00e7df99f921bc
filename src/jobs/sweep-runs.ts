import { isFinal } from "../contract/job.ts";
import type { UnsettledRun } from "../store/job-store.ts";
import { settle, type Settling } from "./settle.ts";
import type { Each } from "./sweep-each.ts";
import type { Presence } from "./presence.ts";

type Dependencies = Settling & {
  settings: { podName: string };
  /** This start of the instance. */
  epoch: string;
  /** Ids of jobs that this instance claims, works on or settles; null: unknown at present. */
  ownRuns: () => ReadonlySet<string> | null;
  presence: Presence;
  each: Each;
};

/** How long a run of this start must be unknown here, over consecutive rounds, to count as abandoned, ms. */
const unknownFor = 2000;

/** Settles abandoned runs: those of lost instances, and those of this start that this instance does not know. */
export const createRunsSweep = (deps: Dependencies) => {
  const { store, settings, presence, each } = deps;
  let unknownSince = new Map<string, number>();
  /** Lost runs of ended jobs, by id and epoch, with the time, ms, before which there is nothing to do for them. */
  let over = new Map<string, number>();

  /** The lost instance cleans up after the run when it is back; callers get the outcome now. */
  const settleLostRun = async ({ id, epoch }: UnsettledRun): Promise<void> => {
    const record = await store.get(id);
    if (record === null || record.instance_epoch !== epoch) return;
    if (isFinal(record.status)) {
      const deadline = Date.parse(record.ended_at ?? "") + record.ttl_seconds * 1000;
      if (deadline <= deps.now().getTime()) await settle(deps, record, nothingLeft);
      else over.set(keyOf({ id, epoch }), deadline);
    } else await settle(deps, record, { kind: "lost", cleaned: null });
  };

  /**
   * A run whose claim succeeded although the reply was lost, and whose queue entry another job has replaced; or whose
   * end the store has lost again.
   */
  const settleUnknownRun = async ({ id }: UnsettledRun): Promise<void> => {
    const record = await store.get(id);
    if (record === null || record.instance_epoch !== deps.epoch || isOwn(id)) return;
    // Without an epoch, a run that begins in this moment finds that it does not own the job.
    const cleaned = { requeue: record.process === null, patch: { instance_epoch: null } };
    await settle(deps, record, { kind: "lost", cleaned });
  };

  const isOwn = (id: string): boolean => deps.ownRuns()?.has(id) ?? true;

  const settleUnknown = async (runs: UnsettledRun[]): Promise<void> => {
    const mine = runs.filter(({ epoch }) => epoch === deps.epoch);
    const unknown = mine.filter(({ id }) => !isOwn(id));
    const now = performance.now();
    unknownSince = new Map(unknown.map(({ id }) => [id, unknownSince.get(id) ?? now]));
    for (const run of unknown) {
      const since = unknownSince.get(run.id) ?? now;
      if (now - since >= unknownFor) await each(run.id, () => settleUnknownRun(run));
    }
  };

  const lookAfterOthers = async (runs: UnsettledRun[]): Promise<void> => {
    presence.noteMissing(runs.map(({ podName }) => podName));
    const known = new Set(runs.map(keyOf));
    over = new Map([...over].filter(([key]) => known.has(key)));
    const now = deps.now().getTime();
    const lost = runs.filter((run) => presence.isLost(run.podName) && !((over.get(keyOf(run)) ?? 0) > now));
    await Promise.all(lost.map((run) => each(run.id, () => settleLostRun(run))));
  };

  return {
    /** Rejects when the store fails. */
    lookAfterRuns: async (): Promise<void> => {
      const runs = await store.unsettled();
      await settleUnknown(runs);
      await lookAfterOthers(runs.filter(({ podName }) => podName !== settings.podName));
    },
    /** Only those of this start. Rejects when the store fails. */
    lookAfterOwn: async (): Promise<void> => await settleUnknown(await store.unsettled()),
    forget: (): void => unknownSince.clear(),
  };
};

/** There is nothing left to clean up. */
const nothingLeft = { kind: "lost", cleaned: { requeue: false, patch: {} } } as const;

const keyOf = ({ id, epoch }: Pick<UnsettledRun, "id" | "epoch">): string => `${id} ${epoch}`;
