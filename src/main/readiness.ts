import type { Readiness } from "../contract/health.ts";
import type { JobStore } from "../store/job-store.ts";

/** Whether new jobs are taken at present, and if not, why. */
export const readiness = async ({
  store,
  closing,
}: {
  store: Pick<JobStore, "check">;
  closing: AbortSignal;
}): Promise<Readiness> => {
  const problem = await store.check().then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  const reasons = [closing.aborted ? "The service is shutting down" : null, problem].filter(
    (reason) => reason !== null,
  );
  return { ready: reasons.length === 0, reasons };
};
