import type { Readiness } from "../contract/health.ts";
import type { JobStore } from "../store/job-store.ts";

/** How long an answer of the store counts, ms: `/ready` is public, and each look at the store writes to the disk. */
const fresh = 1000;

/** Tells whether new jobs are taken at present, and if not, why. */
export const createReadiness = ({
  store,
  closing,
  now,
}: {
  store: Pick<JobStore, "check">;
  closing: AbortSignal;
  now: () => Date;
}): (() => Promise<Readiness>) => {
  let last: { at: number; problem: Promise<string | null> } | null = null;

  const storeProblem = (): Promise<string | null> => {
    const at = now().getTime();
    if (last === null || at - last.at >= fresh) last = { at, problem: check(store) };
    return last.problem;
  };

  return async () => {
    const found = [closing.aborted ? "The service is shutting down" : null, await storeProblem()];
    const reasons = found.filter((reason) => reason !== null);
    return { ready: reasons.length === 0, reasons };
  };
};

const check = (store: Pick<JobStore, "check">): Promise<string | null> =>
  store.check().then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
