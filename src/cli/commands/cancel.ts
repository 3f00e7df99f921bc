import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { print, printJson } from "../print.ts";

/** `svc cancel` */
export const cancel = async (id: string, { json }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.cancel_job({ job_id: id });
  const { job } = body;
  if (json === true) printJson(body);
  else if (job.status === "cancelled") print(`Job ${job.id} is cancelled`);
  else print(`Job ${job.id} had ended before: ${job.status}`);
  return exitCode.ok;
};
