import { ClientError } from "../../client/client-error.ts";
import type { Client } from "../../client/client.ts";
import type { Job, JobStatus } from "../../contract/job.ts";
import { connect } from "../connect.ts";
import { exitCode, type ExitCode } from "../failure.ts";
import { printEvents, waitForJob } from "../live/follow.ts";
import { layoutOf, note, print, printAnswer, printJson, type Layout } from "../print.ts";
import { table, type Column } from "../text/columns.ts";
import { jobPage } from "../text/job-page.ts";
import { age } from "../text/quantities.ts";
import { oneLine } from "../text/sanitise.ts";
import { paintStatus } from "../text/status.ts";
import { queueLines } from "./instances.ts";

export type JobsOptions = { limit: number; status?: JobStatus | "all"; cursor?: string; json?: boolean };

/** `svc jobs` */
export const jobs = async ({ limit, status, cursor, json }: JobsOptions): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.list_jobs({ limit, status: status ?? "", cursor: cursor ?? "" });
  if (json === true) {
    printJson(body);
    return exitCode.ok;
  }
  const layout = layoutOf(process.stdout);
  const below = await linesBelow(client, layout);
  if (body.jobs.length === 0) print((status ?? "all") === "all" ? "No jobs" : `No jobs are ${status}`);
  else print(jobTable(body.jobs, { ...layout, now: Date.now() }));
  for (const line of below) print(line);
  if (body.next_cursor !== null) {
    const same = `-n ${limit}${status === undefined ? "" : ` -s ${status}`}`;
    note(`There are more: svc jobs ${same} --cursor ${oneLine(body.next_cursor)}`);
  }
  return exitCode.ok;
};

/** Empty where they are unavailable: an older service does not know its instances. */
const linesBelow = async (client: Client, layout: Layout): Promise<string[]> => {
  try {
    return queueLines(await client.list_instances({}, { signal: AbortSignal.timeout(5000) }), layout);
  } catch (error) {
    if (error instanceof ClientError || (error instanceof Error && error.name === "TimeoutError")) return [];
    throw error;
  }
};

/** Width from which a list shows ages too. */
const wide = 100;

/** The documented columns; a wide terminal shows ages too. */
export const jobTable = (list: readonly Job[], { now, ...layout }: Layout & { now: number }): string => {
  const ages: Column<Job> = ["AGE", (each) => age(now - Date.parse(each.created_at)), "right"];
  return table(
    list,
    [
      ["ID", ({ id }) => id],
      ["STATUS", ({ status }) => paintStatus(status, layout.paint)],
      ["PROFILE", ({ profile }) => oneLine(profile)],
      ...((layout.columns ?? 0) >= wide ? [ages] : []),
      ["TASK", ({ task }) => oneLine(task.slice(0, 500))],
    ],
    layout,
  ).join("\n");
};

export type JobOptions = { events?: boolean; json?: boolean };

/** `svc job` */
export const job = async (id: string, { events = false, json = false }: JobOptions): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.get_job({ job_id: id });
  if (events) return json ? printEvents(client, body.job.id) : waitForJob({ client, job: body.job, json });
  return printAnswer(body, json, (_, layout) => jobPage(body.job, { ...layout, now: Date.now() }));
};

/** `svc cancel` */
export const cancel = async (id: string, { json }: { json?: boolean }): Promise<ExitCode> =>
  printAnswer(await connect().client.cancel_job({ job_id: id }), json, ({ job: { id: known, status } }) =>
    status === "cancelled" ? `Job ${known} is cancelled` : `Job ${known} had ended before: ${status}`,
  );
