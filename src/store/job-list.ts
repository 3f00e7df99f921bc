import { ServiceError } from "../contract/errors.ts";
import type { JobStatus } from "../contract/job.ts";
import type { JobRecord } from "./job-record.ts";
import type { Position, Records } from "./records.ts";

/** Of this status (`active`: queued or running) and agent session; empty: of any. */
export type ListQuery = {
  limit: number;
  status: JobStatus | "active" | "";
  session_id?: string;
  /** Created then or later, ms since the epoch. */
  since?: number;
  isWanted?: (record: JobRecord) => boolean;
  cursor: string;
};

/** Most records that one page of a filtered list reads. */
export const maxRead = 2000;

/** Records that a filtered list reads at a time. */
const batch = 250;

/** Indexes by creation. */
export const all = "all";
export const ofStatus = (status: JobStatus): string => `st:${status}`;
export const ofSession = (session: string, status?: JobStatus): string =>
  ["session", session, ...(status === undefined ? [] : [status])].join(":");

/** See `JobStore.list`. */
export const listJobs =
  (records: Pick<Records<JobRecord>, "list">, getAll: (ids: readonly string[]) => Promise<JobRecord[]>) =>
  async ({ limit, isWanted, cursor, ...query }: ListQuery) => {
    const found: JobRecord[] = [];
    // One more record than asked for shows whether another page follows.
    const size = isWanted === undefined ? limit + 1 : batch;
    let before = cursor === "" ? null : parseCursor(cursor);
    for (let read = 0; read < maxRead && found.length <= limit; read += size) {
      const page = await newestOf(records, query, { limit: size, before });
      found.push(...(await getAll(page.map(({ id }) => id))).filter(isWanted ?? (() => true)));
      before = page.length < size ? null : (page.at(-1) ?? null);
      if (before === null) break;
    }
    const shown = found.slice(0, limit);
    const last = found.length > limit ? shown.at(-1) : undefined;
    const end = last === undefined ? before : { at: Date.parse(last.created_at), id: last.id };
    return { records: shown, next: end && toCursor(end) };
  };

const newestOf = async (
  records: Pick<Records<JobRecord>, "list">,
  { status, session_id = "", since = -Infinity }: Omit<ListQuery, "limit" | "cursor">,
  page: { limit: number; before: Position | null },
): Promise<Position[]> => {
  const pages = await Promise.all(
    indexesOf(status, session_id).map((index) => records.list(index, { newest: true, ...page })),
  );
  const sorted = pages.flat().toSorted((a, b) => byAge(b, a));
  return sorted
    .filter(({ id, at }, place) => id !== sorted[place - 1]?.id && at >= since)
    .slice(0, page.limit);
};

/** The indexes that together list these jobs. */
const indexesOf = (status: ListQuery["status"], session: string): string[] => {
  const any = session === "" ? all : ofSession(session);
  const of = (one: JobStatus): string => (session === "" ? ofStatus(one) : ofSession(session, one));
  // Queued ones are read first: a job that begins to run in between is in at least one.
  return status === "" ? [any] : status === "active" ? [of("queued"), of("running")] : [of(status)];
};

export const byAge = (a: Position, b: Position): number => a.at - b.at || (a.id < b.id ? -1 : 1);

/** The end of a page as an opaque text. */
export const toCursor = ({ at, id }: Position): string => `${at}_${id}`;

/** @throws ServiceError `invalid_request` when `toCursor` did not make the text */
export const parseCursor = (cursor: string): Position => {
  const match = /^(\d{1,15})_([0-9a-f-]{36}(?:-[A-Za-z0-9_-]{1,60})?)$/.exec(cursor);
  if (match === null) {
    throw new ServiceError("invalid_request", "cursor: must be the next_cursor of an earlier page");
  }
  return { at: Number(match[1]), id: match[2] ?? "" };
};
