import type { Job } from "../../../src/contract/job.ts";

/** Lines added and removed. */
export const Change = ({ stat }: { stat: Job["diff_stat"] }) =>
  stat === null ? null : (
    <span className="number" title={`${stat.files} file${stat.files === 1 ? "" : "s"}`}>
      <span className="added">
        <span aria-hidden="true">+</span>
        {stat.insertions.toLocaleString("en")}
        <span className="visually-hidden"> lines added,</span>
      </span>{" "}
      <span className="removed">
        <span aria-hidden="true">−</span>
        {stat.deletions.toLocaleString("en")}
        <span className="visually-hidden"> removed</span>
      </span>
    </span>
  );
