import type { Client } from "../../client/client.ts";
import type { Job } from "../../contract/job.ts";

/**
 * Directory of the cached clone that keeps the job's unfinished work, as its events tell; null when it has none, or they
 * do not say. The worktree would do for a while, but is removed long before the clone.
 */
export const cachedClone = async (client: Client, job: Job): Promise<string | null> => {
  if (job.salvage_ref === null) return null;
  try {
    for await (const event of client.events(job.id, { patienceMs: 0, signal: AbortSignal.timeout(5000) })) {
      if (event.type !== "stage") continue;
      if (event.stage === "fetched") return event.detail;
      if (event.stage === "agent_started") return null;
    }
  } catch {
    // The page is worth more than this line of it.
  }
  return null;
};
