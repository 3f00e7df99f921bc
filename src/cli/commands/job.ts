import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { print, printJson, terminalColumns } from "../print.ts";
import { jobPage } from "../text/job-page.ts";
import { painter } from "../text/paint.ts";
import { cachedClone } from "./cached-clone.ts";
import { printEvents } from "./print-events.ts";
import { waitForJob } from "./wait-for-job.ts";

export type JobOptions = { events?: boolean; json?: boolean };

/** `svc job` */
export const job = async (id: string, { events = false, json = false }: JobOptions): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.get_job({ job_id: id });
  if (events) return json ? printEvents(client, body.job.id) : waitForJob({ client, job: body.job, json });
  if (json) printJson(body);
  else {
    const clone = await cachedClone(client, body.job);
    const layout = { paint: painter(process.stdout), columns: terminalColumns() };
    print(jobPage(body.job, { ...layout, clone, now: Date.now() }));
  }
  return exitCode.ok;
};
