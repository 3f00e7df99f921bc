import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "../../client/client.ts";
import { ClientError } from "../../client/client-error.ts";
import type { Answer } from "../../contract/operation.ts";
import type { Operations } from "../../contract/operations.ts";
import type { ListJobsInput } from "../../contract/job-list.ts";
import { jobTable } from "../../view/job.ts";
import { oneLine, shellWord } from "../../view/sanitise.ts";
import { queueLines } from "../../view/service.ts";
import { connect } from "../connect.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { interruptible } from "../interruption.ts";
import { isOutage } from "../live/follow.ts";
import { flagOf, type Asked } from "../operation-commands.ts";
import { layoutOf, note, print, printJson } from "../print.ts";
import { fromHere } from "./input.ts";

type Query = Partial<ListJobsInput> & { limit: number };
type Listed = Answer<Operations["list_jobs"]>;

/** `svc jobs` */
export const jobs = async ({ input, flags }: Asked): Promise<ExitCode> => {
  const { client } = connect();
  const { active, failed, quiet, watch: isWatched, json } = flags;
  const asked = input as Query;
  const query: Query = {
    ...asked,
    ...(active === true && { status: "active" as const }),
    ...(failed === true && { status: "failed" as const }),
    ...(asked.repo_url !== undefined && { repo_url: fromHere(asked.repo_url) }),
    ...(asked.since !== undefined && { since: instant(asked.since) }),
  };
  if (isWatched === true) return await watch(client, query);
  const body = await list(client, query);
  if (json === true) printJson(body);
  else if (quiet === true) for (const { id } of body.jobs) print(id);
  else print(await page(client, body));
  if (body.next_cursor !== null && json !== true)
    note(`There are more: svc jobs${quiet === true ? " -q" : ""}${flagsFor(query, body.next_cursor)}`);
  return exitCode.ok;
};

/** Reads `--since`. A time without a zone is local, a date alone is in UTC. */
const instant = (text: string): string => {
  const [, count, unit = ""] = /^(\d{1,6}) *([mhdw])$/.exec(text) ?? [];
  if (count !== undefined)
    return new Date(Date.now() - Number(count) * (milliseconds[unit] ?? 0)).toISOString();
  if (!/^\d{4}-\d\d-\d\d([T ].+)?$/.test(text) || Number.isNaN(Date.parse(text)))
    throw usageError(
      `--since ${text}: it must be a time such as 30m, 2h, 3d, 2026-03-02 or 2026-03-02T09:15`,
    );
  return text.length === 10 ? text : new Date(text).toISOString();
};

const milliseconds: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** As many as asked for. The service answers with fewer where it would read too many to find them. */
const list = async (client: Client, query: Query): Promise<Listed> => {
  const body = await client.list_jobs(query);
  while (isFiltered(query) && body.next_cursor !== null && body.jobs.length < query.limit) {
    const more = { ...query, limit: query.limit - body.jobs.length, cursor: body.next_cursor };
    const { jobs: found, next_cursor } = await client.list_jobs(more);
    body.jobs.push(...found);
    Object.assign(body, { next_cursor, count: body.jobs.length });
  }
  return body;
};

const isFiltered = ({ limit: _limit, status: _status, cursor: _cursor, ...filters }: Query): boolean =>
  Object.keys(filters).length > 0;

const flagsFor = (query: Query, cursor: string): string =>
  Object.entries({ ...query, cursor })
    .map(([name, value]) => ` ${flagOf(name)} ${shellWord(oneLine(String(value)))}`)
    .join("");

const page = async (client: Client, body: Listed): Promise<string> => {
  const below = await fleetLines(client);
  return jobTable(body.jobs, { ...layoutOf(process.stdout), now: Date.now(), below });
};

/** Redraws the list until interrupted. The last one stays on the screen. */
const watch = async (client: Client, query: Query): Promise<ExitCode> => {
  const { stdout } = process;
  if (!stdout.isTTY || process.env["TERM"] === "dumb")
    throw usageError("--watch redraws a terminal, which standard output is not: leave it out");
  const { createLogUpdate } = await import("log-update");
  const draw = createLogUpdate(stdout, { showCursor: true });
  const look = async (): Promise<string> =>
    await page(client, await list(client, query)).catch((error: unknown) => {
      if (isOutage(error)) return `${oneLine(error.message)}; svc tries again`;
      throw error;
    });
  return await interruptible(async (signal) => {
    for (;;) {
      // A line more than the screen has would scroll it at each look.
      draw(
        (await look())
          .split("\n")
          .slice(0, stdout.rows - 1)
          .join("\n"),
      );
      await delay(watchEveryMs, undefined, { signal });
    }
  }).finally(() => draw.done());
};

const watchEveryMs = 2000;

/** Empty where they are unavailable. */
const fleetLines = async (client: Client): Promise<string[]> => {
  try {
    return queueLines(await client.list_instances({}, { signal: AbortSignal.timeout(5000) }));
  } catch (error) {
    if (error instanceof ClientError || (error instanceof Error && error.name === "TimeoutError")) return [];
    throw error;
  }
};
