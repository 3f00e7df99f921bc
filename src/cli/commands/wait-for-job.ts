import type { Client } from "../../client/client.ts";
import type { Job } from "../../contract/job.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { catchInterruption } from "../interruption.ts";
import { followJob } from "../live/follow.ts";
import { advance, noProgress } from "../live/progress.ts";
import { chooseView, quietView } from "../live/view.ts";
import { note, print, printJson, terminalColumns } from "../print.ts";
import { painter } from "../text/paint.ts";
import { summary } from "../text/summary.ts";

type Wait = { client: Client; job: Job; json: boolean };

/** Shows the job until it has ended, then what came of it; `json`: the final body on stdout, the account on a terminal only. */
export const waitForJob = async ({ client, job, json }: Wait): Promise<ExitCode> => {
  const stream = json ? process.stderr : process.stdout;
  const view =
    json && !stream.isTTY ? quietView(stream) : await chooseView(stream, Date.parse(job.created_at));
  using interruption = catchInterruption();
  let progress = noProgress;
  let ended: Job;
  try {
    ended = await followJob({
      client,
      jobId: job.id,
      signal: interruption.signal,
      onEvent: (event) => {
        progress = advance(progress, event);
        view.event(event);
      },
      onNote: view.note,
    });
  } catch (error) {
    view.close();
    if (!interruption.signal.aborted) throw error;
    note(
      `\nNo longer waiting; the job goes on.\nFollow it:  svc job ${job.id} --events\nCancel it:  svc cancel ${job.id}`,
    );
    return interruption.exit();
  } finally {
    view.close();
  }
  if (json) printJson({ success: true, job: ended });
  else {
    const layout = { paint: painter(process.stdout), columns: terminalColumns() };
    print(`\n${summary(ended, { ...layout, clone: progress.clone })}`);
  }
  return ended.status === "succeeded" ? exitCode.ok : exitCode.failure;
};
