import { ClientError } from "../../client/client-error.ts";
import type { Client } from "../../client/client.ts";
import type { Job, JobStatus } from "../../contract/job.ts";
import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { note, print, printJson, terminalColumns } from "../print.ts";
import { aligned, rightAligned } from "../text/columns.ts";
import { age } from "../text/duration.ts";
import { painter } from "../text/paint.ts";
import type { Paint } from "../text/paint.ts";
import { queueLines } from "../text/queue-lines.ts";
import { oneLine } from "../text/sanitise.ts";
import { paintStatus } from "../text/status.ts";
import { wrap } from "../text/width.ts";

export type JobsOptions = { limit: number; status?: JobStatus | "all"; cursor?: string; json?: boolean };

/** `svc jobs` */
export const jobs = async ({ limit, status, cursor, json }: JobsOptions): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.list_jobs({ limit, status: status ?? "", cursor: cursor ?? "" });
  if (json === true) {
    printJson(body);
    return exitCode.ok;
  }
  const below = await linesBelow(client);
  if (body.jobs.length === 0) print((status ?? "all") === "all" ? "No jobs" : `No jobs are ${status}`);
  else {
    const layout = { paint: painter(process.stdout), columns: terminalColumns() };
    print(jobTable(body.jobs, { ...layout, now: Date.now() }));
  }
  const paint = painter(process.stdout);
  for (const line of below) print(paint("dim", line));
  if (body.next_cursor !== null) {
    const same = `-n ${limit}${status === undefined ? "" : ` -s ${status}`}`;
    note(`There are more: svc jobs ${same} --cursor ${oneLine(body.next_cursor)}`);
  }
  return exitCode.ok;
};

/** The list stands without them: an older service does not know of its instances. */
const linesBelow = async (client: Client): Promise<string[]> => {
  try {
    const overview = await client.list_instances({}, { signal: AbortSignal.timeout(5000) });
    return queueLines(overview).flatMap((line) => wrap(line, terminalColumns() ?? Infinity));
  } catch (error) {
    if (error instanceof ClientError || (error instanceof Error && error.name === "TimeoutError")) return [];
    throw error;
  }
};

type TableOptions = { paint: Paint; columns: number | undefined; now: number };

/**
 * Without a terminal nothing is cut but a task's length, so that a list stays a list, and the columns are the documented
 * ones. A terminal that is wide enough shows ages too.
 */
export const jobTable = (list: readonly Job[], { paint, columns, now }: TableOptions): string => {
  const ages = rightAligned(["AGE", ...list.map((job) => age(now - Date.parse(job.created_at)))]);
  const cells = [
    ["ID", "STATUS", "PROFILE", "TASK"],
    ...list.map((job) => [job.id, job.status, oneLine(job.profile), oneLine(job.task.slice(0, 500))]),
  ];
  const withAges = columns !== undefined && columns >= wide;
  const rows = withAges ? cells.map((row, index) => row.toSpliced(3, 0, ages[index] ?? "")) : cells;
  const [head = "", ...lines] = aligned(rows, { columns: columns ?? 250 });
  const painted = lines.map((line, index) => {
    const status = list[index]?.status;
    // An id has no letters beyond f: the first place that reads like the status is its cell.
    return status === undefined ? line : line.replace(status, () => paintStatus(status, paint));
  });
  return [paint("bold", head), ...painted].join("\n");
};

/** Columns from which on there is room for more than what is documented. */
const wide = 100;
