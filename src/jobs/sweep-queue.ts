import type { JobRecord } from "../store/job-record.ts";
import type { QueueEntry } from "./queue.ts";
import { endJob, type Settling } from "./settle.ts";
import type { Each } from "./sweep-each.ts";
import type { Presence } from "./presence.ts";

type Dependencies = Settling & {
  settings: { lostInstanceGrace: number };
  presence: Presence;
  each: Each;
};

/** Age at which a queued job's queue entry is checked, ms: a younger one may just be on its way there. */
const settled = 5000;

/** Waiting jobs checked in one round. */
const looked = 200;

/** Checks waiting jobs: that each has a queue entry, and that none waits for an instance for ever. */
export const createQueueSweep = (deps: Dependencies) => {
  const { store, queue, settings, presence, each, log } = deps;
  /** Where the next round begins: rounds cycle through the waiting jobs, so that none is starved. */
  let from = 0;

  const isGivenUp = (name: string): boolean =>
    !presence.isHere(name) && presence.missingFor(name) >= settings.lostInstanceGrace * 1000;

  /** The entry to add; null: nothing to do. */
  const lookAt = async (id: string): Promise<QueueEntry | null> => {
    const record = await store.get(id);
    if (record === null || record.status !== "queued") return null;
    if (Date.parse(record.created_at) >= deps.now().getTime() - settled) return null;
    const { bound_to: boundTo } = record;
    if (boundTo === null) return { id, boundTo };
    presence.noteMissing([boundTo]);
    if (isGivenUp(boundTo)) {
      await rescue(record);
      return null;
    }
    if (!presence.isLost(boundTo)) return { id, boundTo };
    await tell(record, boundTo);
    return null;
  };

  /** Readers of the job then know what it waits for. */
  const tell = async ({ id, warnings, request }: JobRecord, name: string): Promise<void> => {
    const then = request.session_id === "" ? "it fails" : "it goes on on another instance";
    const warning = `It waits for the instance ${name}, on whose disk its worktree is and which does not answer; ${then} when ${name} has been away for ${settings.lostInstanceGrace} s`;
    if (warnings.includes(warning)) return;
    await store.update(id, { status: ["queued"] }, (current) =>
      current.warnings.includes(warning) ? {} : { warnings: [...current.warnings, warning] },
    );
  };

  /**
   * A session can continue on another instance, from its branch; a worktree that was asked for by name is lost with
   * its instance.
   */
  const rescue = async (record: JobRecord): Promise<void> => {
    const { id, bound_to: boundTo } = record;
    if (record.request.session_id !== "") {
      await queue.remove({ id, boundTo });
      const freed = await store.update(id, { status: ["queued"] }, { bound_to: null });
      if (freed !== null) await queue.add({ id, boundTo: null });
      log.info({ job: id, instance: boundTo }, "job of a lost instance's worktree may run anywhere now");
      return;
    }
    await endJob(deps, id, "giveUp", () => ({
      failure_reason: "worktree_failed",
      retryable: false,
      error: `The instance ${boundTo ?? ""}, on whose disk the worktree is, has not been there for ${settings.lostInstanceGrace} s; prepare another worktree`,
    }));
  };

  return {
    /** Rejects when the store fails. */
    lookAfterQueue: async (): Promise<void> => {
      const ids = await store.ids("queued", looked, from);
      const found = await Promise.all(ids.map((id) => each(id, () => lookAt(id))));
      await queue.add(...found.filter((entry) => entry !== null));
      from = ids.length < looked ? 0 : from + looked;
    },
  };
};
