import type { Job } from "../../../src/contract/job.ts";
import { counted } from "../../../src/lib/quantities.ts";

/** Lines added and removed. */
export const Change = ({ stat }: { stat: Job["diff_stat"] }) =>
  stat === null ? null : (
    <span className="number" title={`lines added and removed, in ${counted(stat.files, "file")}`}>
      <span className="added">{`+${stat.insertions.toLocaleString("en")}`}</span>{" "}
      <span className="removed">{`−${stat.deletions.toLocaleString("en")}`}</span>
    </span>
  );
