import type { Job } from "../../../src/contract/job.ts";
import { counted } from "../../../src/view/quantities.ts";

/** Lines added and removed; of files that have none, such as pictures, how many changed. */
export const Change = ({ stat }: { stat: Job["diff_stat"] }) =>
  stat === null || stat.files === 0 ? null : (
    <span className="number" title={`lines added and removed, in ${counted(stat.files, "file")}`}>
      {stat.insertions + stat.deletions === 0 && counted(stat.files, "file")}
      {stat.insertions > 0 && <span className="added">{`+${stat.insertions.toLocaleString("en")} `}</span>}
      {stat.deletions > 0 && <span className="removed">{`−${stat.deletions.toLocaleString("en")}`}</span>}
    </span>
  );

/** Whether `svc checkout` has something to bring. */
export const hasChange = ({ repo_url, diff_stat, salvage_ref }: Job): boolean =>
  repo_url !== "" && ((diff_stat?.files ?? 0) > 0 || salvage_ref !== null);
