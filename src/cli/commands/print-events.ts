import type { Client } from "../../client/client.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { catchInterruption } from "../interruption.ts";
import { followJob } from "../live/follow.ts";
import { note, print } from "../print.ts";

/** The event log of a job, one JSON object a line, until the job has ended. */
export const printEvents = async (client: Client, jobId: string): Promise<ExitCode> => {
  using interruption = catchInterruption();
  const { signal } = interruption;
  try {
    const onEvent = (event: unknown): void => print(JSON.stringify(event));
    const ended = await followJob({ client, jobId, signal, onEvent, onNote: note });
    return ended.status === "succeeded" ? exitCode.ok : exitCode.failure;
  } catch (error) {
    if (signal.aborted) return interruption.exit();
    throw error;
  }
};
