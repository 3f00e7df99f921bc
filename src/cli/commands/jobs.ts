import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "../../client/client.ts";
import { ClientError } from "../../client/client-error.ts";
import type { JobStatus } from "../../contract/job.ts";
import { connect } from "../connect.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { isOutage } from "../live/follow.ts";
import { layoutOf, note, print, printJson } from "../print.ts";
import type { Layout } from "../../view/paint.ts";
import { jobTable } from "../../view/job-table.ts";
import { oneLine, shellWord } from "../../view/sanitise.ts";
import { fromHere } from "./input.ts";
import { queueLines } from "./lists.ts";

export type JobsOptions = {
  limit: number;
  status?: JobStatus | "all" | "active";
  active?: boolean;
  failed?: boolean;
  cursor?: string;
  quiet?: boolean;
  watch?: boolean;
  json?: boolean;
} & Partial<Record<keyof typeof parameters, string>>;

/** Filters among the options, and what the service calls them. */
const parameters = {
  repo: "repo_url",
  profile: "profile",
  since: "since",
  search: "q",
  session: "session_id",
} as const;

/** `svc jobs` */
export const jobs = async (asked: JobsOptions): Promise<ExitCode> => {
  const { client } = connect();
  const options = { ...asked };
  if (asked.active === true) options.status = "active";
  if (asked.failed === true) options.status = "failed";
  if (asked.repo !== undefined) options.repo = fromHere(asked.repo);
  if (options.watch === true) return watch(client, options);
  const body = await list(client, options);
  if (options.json === true) printJson(body);
  else if (options.quiet === true) for (const { id } of body.jobs) print(id);
  else print(await page(client, body, layoutOf(process.stdout)));
  if (body.next_cursor !== null && options.json !== true)
    note(`There are more: ${commandFor(options, body.next_cursor)}`);
  return exitCode.ok;
};

type Listed = Awaited<ReturnType<Client["list_jobs"]>>;

/** As many as asked for. The service answers with fewer where it would read too many to find them. */
const list = async (client: Client, options: JobsOptions): Promise<Listed> => {
  const { limit, status = "" as const, cursor = "" } = options;
  const filters = Object.fromEntries(given(options).map(([name, value]) => [parameters[name], value]));
  const body = await client.list_jobs({ limit, status, cursor, ...filters });
  while (given(options).length > 0 && body.next_cursor !== null && body.jobs.length < limit) {
    const more = { limit: limit - body.jobs.length, status, cursor: body.next_cursor, ...filters };
    const { jobs: found, next_cursor } = await client.list_jobs(more);
    body.jobs.push(...found);
    Object.assign(body, { next_cursor, count: body.jobs.length });
  }
  return body;
};

const given = (options: JobsOptions) =>
  (Object.keys(parameters) as (keyof typeof parameters)[]).flatMap((name) => {
    const value = options[name];
    return value === undefined ? [] : [[name, value] as const];
  });

const commandFor = (options: JobsOptions, cursor: string): string =>
  [
    `svc jobs -n ${options.limit}`,
    ...(options.status === undefined ? [] : [`-s ${options.status}`]),
    ...(options.quiet === true ? ["-q"] : []),
    ...given(options).map(([name, value]) => `--${name} ${shellWord(oneLine(value))}`),
    `--cursor ${oneLine(cursor)}`,
  ].join(" ");

const page = async (client: Client, { jobs: found }: Listed, layout: Layout): Promise<string> => {
  const first = found.length === 0 ? "No jobs found" : jobTable(found, { ...layout, now: Date.now() });
  return [first, ...(await fleetLines(client, layout))].join("\n");
};

/** Empty where they are unavailable. */
const fleetLines = async (client: Client, layout: Layout): Promise<string[]> => {
  try {
    return queueLines(await client.list_instances({}, { signal: AbortSignal.timeout(5000) }), layout);
  } catch (error) {
    if (error instanceof ClientError || (error instanceof Error && error.name === "TimeoutError")) return [];
    throw error;
  }
};

/** Draws the list again and again until interrupted. The last one stays on the screen. */
const watch = async (client: Client, options: JobsOptions): Promise<ExitCode> => {
  const { stdout } = process;
  if (!stdout.isTTY || process.env["TERM"] === "dumb")
    throw usageError("--watch redraws a terminal, which standard output is not: leave it out");
  const { createLogUpdate } = await import("log-update");
  // The cursor stays visible: a killed process leaves nothing to repair.
  const draw = createLogUpdate(stdout, { showCursor: true });
  using interruption = catchInterruption();
  const { signal } = interruption;
  const look = async (): Promise<string> => page(client, await list(client, options), layoutOf(stdout));
  try {
    for (;;) {
      const shown = await look().catch((error: unknown) => {
        if (isOutage(error)) return oneLine(error.message);
        throw error;
      });
      // Some terminals report 0 rows.
      draw(
        shown
          .split("\n")
          .slice(0, (stdout.rows || Infinity) - 1)
          .join("\n"),
      );
      await delay(everyMs, undefined, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    return interruption.exit();
  } finally {
    draw.done();
  }
};

const everyMs = 2000;
