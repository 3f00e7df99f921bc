import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import { takeStep } from "./state.ts";

type Claimer = { instance: { podName: string; epoch: string }; at: Date };

/** Makes a queued job this instance's; null when its time is over or somebody else was faster. */
export const claimed = (
  store: JobStore,
  queued: JobRecord,
  { instance, at }: Claimer,
): Promise<JobRecord | null> => {
  if (Date.parse(queued.created_at) + queued.ttl_seconds * 1000 <= at.getTime()) return Promise.resolve(null);
  const attempt = queued.attempt + 1;
  return takeStep(store, {
    id: queued.id,
    trigger: "claim",
    attempt: queued.attempt,
    patch: (record) => ({
      started_at: at.toISOString(),
      pod_name: instance.podName,
      instance_epoch: instance.epoch,
      attempt,
      unsettled: true,
      process: null,
      pid: null,
      stages: [...record.stages, { stage: "claimed", at: at.toISOString(), attempt }],
    }),
  });
};
