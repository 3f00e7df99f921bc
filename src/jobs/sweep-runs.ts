import { isFinal } from "../contract/job.ts";
import type { UnsettledRun } from "../store/job-store.ts";
import { settle, type Settling } from "./settle.ts";
import type { Each } from "./sweep-each.ts";
import type { Presence } from "./presence.ts";

type Dependencies = Settling & {
  settings: { podName: string };
  /** This start of the instance. */
  epoch: string;
  /** Ids of the jobs that this instance claims, works on or settles; null: that is not to be gone by. */
  ownRuns: () => ReadonlySet<string> | null;
  presence: Presence;
  each: Each;
};

/** How long a run of this start must have been unknown here, in one round after another, to be nobody's, ms. */
const unknownFor = 2000;

/** Settles runs that nobody will settle: those of lost instances, and those of this start that this instance knows nothing of. */
export const createRunsSweep = (deps: Dependencies) => {
  const { store, settings, presence, each } = deps;
  let unknownSince = new Map<string, number>();
  /** Lost runs, by id and epoch, whose job has ended: when its time is over, ms. Before that there is nothing to look after. */
  let over = new Map<string, number>();

  /** The lost instance cleans up after the run when it is back; what callers wait for is written now. */
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
   * A run whose claim was done without our hearing of it, and whose place in the queue somebody else has taken; or whose end
   * the store has lost again.
   */
  const settleUnknownRun = async ({ id }: UnsettledRun): Promise<void> => {
    const record = await store.get(id);
    if (record === null || record.instance_epoch !== deps.epoch || isOwn(id)) return;
    // The epoch is taken away, so that a run which begins in this moment is seen not to be its own.
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

/** Nobody will clean up after it any more. */
const nothingLeft = { kind: "lost", cleaned: { requeue: false, patch: {} } } as const;

const keyOf = ({ id, epoch }: Pick<UnsettledRun, "id" | "epoch">): string => `${id} ${epoch}`;
