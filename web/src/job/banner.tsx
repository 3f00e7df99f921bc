import { adviceFor } from "../../../src/view/advice.ts";
import { oneLine, sanitise } from "../../../src/view/sanitise.ts";
import type { Job } from "../../../src/contract/job.ts";

/** Why the job failed, what to do about it, and its warnings: above all of its parts. */
export const Banner = ({ job }: { job: Job }) => {
  const { error, warnings } = job;
  // Many errors say it themselves.
  const advice = error?.includes("\nWhat to do: ") === true ? null : adviceFor(job);
  if (error === null && advice === null && warnings.length === 0) return null;
  return (
    <section className="banner" data-status={job.status} aria-label="Error and warnings" tabIndex={0}>
      {error !== null && <p className="words">{sanitise(error)}</p>}
      {advice !== null && <p>What to do: {advice}</p>}
      {warnings.map((warning, index) => (
        <p key={index}>Warning: {oneLine(warning)}</p>
      ))}
    </section>
  );
};
