import stringWidth from "string-width";
import type { Job } from "../contract/job.ts";
import { repositoryName } from "../lib/repository-name.ts";
import type { Layout } from "./paint.ts";
import { age, cost, duration, table, type Column } from "./columns.ts";
import { oneLine } from "./sanitise.ts";
import { paintStatus } from "./paint.ts";

/** Columns that the task needs at least. */
const taskRoom = 24;

/** Left out in this order where the terminal has no room for the task beside them. */
const leftOut = ["PROFILE", "COST", "DURATION", "REPOSITORY", "AGE"];

/** One line per job. */
export const jobTable = (list: readonly Job[], { now, ...layout }: Layout & { now: number }): string => {
  let columns: Column<Job>[] = [
    // The service lets no two jobs begin with the same eight digits.
    ["ID", ({ id }) => oneLine(id.slice(0, 8))],
    ["STATUS", ({ status }) => paintStatus(status, layout.paint)],
    ["REPOSITORY", ({ repo_url: url }) => (url === "" ? "–" : oneLine(shortRepository(url)))],
    ["PROFILE", ({ profile }) => oneLine(profile)],
    ["AGE", ({ created_at: from }) => age(now - Date.parse(from)), "right"],
    ["DURATION", (job) => durationOf(job, now), "right"],
    [
      "COST",
      ({ cost_usd: usd, cost_estimated }) => (usd === null ? "–" : cost(usd, cost_estimated)),
      "right",
    ],
  ];
  const room = (layout.columns ?? Infinity) - taskRoom;
  for (const name of leftOut) {
    const width = columns.reduce((sum, column) => sum + widthOf(column, list), 0);
    if (width > room) columns = columns.filter(([heading]) => heading !== name);
  }
  return table(list, [...columns, ["TASK", ({ task }) => oneLine(task.slice(0, 500))]], layout).join("\n");
};

const widthOf = ([heading, cell]: Column<Job>, list: readonly Job[]): number =>
  Math.max(heading.length, ...list.map((job) => stringWidth(cell(job)))) + 2;

/** `acme/app` */
const shortRepository = (url: string): string => repositoryName(url).split("/").slice(-2).join("/");

const durationOf = ({ started_at: from, ended_at: to }: Job, now: number): string =>
  from === null ? "–" : duration(Math.max(0, (to === null ? now : Date.parse(to)) - Date.parse(from)));
