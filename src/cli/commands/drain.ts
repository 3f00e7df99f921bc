import { loadSettings } from "../../config/settings.ts";
import { drainInstance, flagMargin, jobList } from "../../main/drain.ts";
import { CliError, exitCode, usageError, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { note } from "../print.ts";
import { oneLine } from "../../view/sanitise.ts";

/** `svc drain`: for the hook that runs before an instance is stopped. Prints to stderr only. */
export const drain = async ({ timeout }: { timeout: number }): Promise<ExitCode> => {
  const { settings } = loadSettings({ env: process.env, role: "client" });
  const { kvUrl, podName } = settings;
  if (kvUrl === null) {
    throw usageError(
      "svc drain needs KV_URL; a single instance drains by itself on SIGTERM (SERVICE_DRAIN_TIMEOUT)",
    );
  }
  using interruption = catchInterruption();
  const request = { timeout, signal: interruption.signal, say: (text: string) => note(oneLine(text)) };
  const end = await drainInstance({ ...settings, kvUrl }, request).catch((error: unknown) => {
    if (request.signal.aborted) return { outcome: "interrupted" as const, withdrawn: false };
    throw error;
  });
  if (end.outcome === "interrupted") {
    note(
      `No longer waiting; ${podName} takes new jobs again${end.withdrawn ? "" : " when the request lapses"}`,
    );
    return interruption.exit();
  }
  if (end.outcome === "late") throw late(podName, timeout, end.left);
  if (end.outcome === "absent") throw absent(podName, end.living);
  const { jobs, seconds } = end;
  const waited = jobs.length === 0 ? "" : `; waited ${Math.round(seconds)} s for ${jobList(jobs)}`;
  note(`${podName} runs no job${waited}`);
  return exitCode.ok;
};

const absent = (name: string, living: string[]): CliError =>
  usageError(
    living.length === 0
      ? `No instance ${name} is running, nor any other: there is nothing to wait for. If there should be one, check KV_URL and KV_KEY_PREFIX`
      : `No instance ${name} is running. Set SERVICE_POD_NAME to one that is: ${living.toSorted().join(", ")}`,
  );

const late = (name: string, timeout: number, left: string | null): CliError => {
  const why =
    left !== null
      ? `${name} still runs ${left} after ${timeout} s`
      : `${name} has not said within ${timeout} s that it takes no new jobs and runs none; look into its log`;
  return new CliError(
    `${why}. It is asked to take no new jobs for another ${flagMargin} s: stop it within them, and what it runs gets SERVICE_DRAIN_TIMEOUT to end`,
    { code: "drain_timeout" },
  );
};
