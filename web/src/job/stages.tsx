import type { Job } from "../../../src/contract/job.ts";
import { duration } from "../../../src/view/quantities.ts";
import { useNow } from "../parts/time.tsx";

type Stages = Job["stages"];

/** The job's stages in time: each as wide as it took. */
export const Stages = ({ job, live }: { job: Job; live: Stages }) => {
  const now = useNow();
  // Events come before the job is read again.
  const stages = live.length > job.stages.length ? live : job.stages;
  const times = stages.map(({ at }) => Date.parse(at));
  const hasEnded = job.ended_at !== null;
  return (
    <ol className="stages facts" aria-label="Stages">
      {stages.map(({ stage, at, attempt }, index) => {
        const until = times[index + 1] ?? (hasEnded ? (times[index] ?? 0) : now);
        const took = Math.max(0, until - (times[index] ?? 0));
        const isLast = index === stages.length - 1;
        return (
          <li
            key={`${stage}-${attempt}-${at}`}
            title={at}
            className={isLast ? (hasEnded ? job.status : "running") : undefined}
            // The root keeps short stages in sight beside one of an hour.
            style={{ flexGrow: Math.sqrt(took) }}
          >
            <span>
              {stage.replaceAll("_", " ")}
              {attempt > 1 && ` ${attempt}`}
              {!(isLast && hasEnded) && <span className="number"> {duration(took)}</span>}
            </span>
          </li>
        );
      })}
    </ol>
  );
};
