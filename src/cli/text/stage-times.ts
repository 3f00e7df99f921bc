import type { Job } from "../../contract/job.ts";
import { aligned } from "./columns.ts";
import { duration } from "./duration.ts";

/**
 * Where the time of a job went: each stage with its time (UTC), the time since the stage before, and its share of the
 * whole. While the job runs the last line is the time since its latest stage.
 */
export const stageTimes = (job: Job, now: number): string[] => {
  const [first] = job.stages;
  if (first === undefined) return [];
  const begin = Date.parse(first.at);
  const running = job.ended_at === null;
  const end = running ? Math.max(now, begin) : Date.parse(job.stages.at(-1)?.at ?? first.at);
  const row = ({ name, at, from }: { name: string; at: number; from: number | null }): string[] => {
    const took = from === null ? null : Math.max(0, at - from);
    return [
      name,
      new Date(at).toISOString().slice(11, 23),
      took === null ? "" : duration(took).padStart(8),
      took === null || end === begin ? "" : `${Math.round((100 * took) / (end - begin))} %`.padStart(5),
    ];
  };
  const attempts = new Set(job.stages.map(({ attempt }) => attempt).filter((attempt) => attempt > 0));
  const rows = job.stages.map(({ stage, at, attempt }, index) => {
    const before = job.stages[index - 1];
    const name = attempts.size > 1 && attempt > 0 ? `${stage} (attempt ${attempt})` : stage;
    return row({ name, at: Date.parse(at), from: before === undefined ? null : Date.parse(before.at) });
  });
  const last = job.stages.at(-1);
  if (running && last !== undefined) rows.push(row({ name: "now", at: end, from: Date.parse(last.at) }));
  return aligned(rows);
};
