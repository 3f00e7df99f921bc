import type { ListJobsInput } from "../contract/job-list.ts";
import { jobFilter } from "../lib/job-filter.ts";
import type { ListQuery } from "../store/job-list.ts";

/** What a caller asks for as the store's query. */
export const queryOf = ({
  status,
  since,
  limit,
  session_id,
  cursor,
  ...wanted
}: ListJobsInput): ListQuery => ({
  limit,
  session_id,
  cursor,
  status: status === "all" ? "" : status,
  ...(since !== "" && { since: Date.parse(since) }),
  ...(Object.values(wanted).some((text) => text.trim() !== "") && { isWanted: jobFilter(wanted) }),
});
