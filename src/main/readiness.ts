import type { CompanionTarget } from "../contract/companion.ts";
import type { Readiness } from "../contract/instance.ts";
import type { JobStore } from "../store/job-store.ts";

/**
 * How long an answer of the store is cached, ms: `/ready` is public, and each check of the store writes to the disk.
 */
const cacheMs = 1000;

/** Reports whether new jobs are accepted, and if not, why. */
export const createReadiness = ({
  store,
  disks,
  companions,
  isDraining,
  closing,
  clock = () => performance.now(),
}: {
  store: Pick<JobStore, "check">;
  disks: { requireRoom: (least?: number) => Promise<void> };
  companions: () => Promise<{ target: CompanionTarget; ageSeconds: number | null }[]>;
  isDraining: () => boolean;
  closing: AbortSignal;
  /** Milliseconds of a monotonic clock. */
  clock?: () => number;
}): (() => Promise<Readiness>) => {
  let last: { at: number; problem: Promise<string | null> } | null = null;

  const storeProblem = (): Promise<string | null> => {
    const at = clock();
    if (last === null || at - last.at >= cacheMs) last = { at, problem: problemOf(store.check()) };
    return last.problem;
  };

  return async () => {
    const shutdown = closing.aborted ? "The service is shutting down" : null;
    const draining = shutdown === null && isDraining() ? "The instance is asked to drain" : null;
    const found = [shutdown, draining, await storeProblem(), await problemOf(disks.requireRoom(minRoom))];
    const reasons = found.filter((reason) => reason !== null);
    const ages = (await companions()).map(({ target, ageSeconds }) => ({ target, age_seconds: ageSeconds }));
    return { ready: reasons.length === 0, reasons, companions: ages };
  };
};

/** Bytes. With less no job can run, whatever the settings say. */
const minRoom = 1024 * 1024;

const problemOf = (check: Promise<void>): Promise<string | null> =>
  check.then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
