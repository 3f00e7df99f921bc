import type { Client } from "../../client/client.ts";
import { connect } from "../connect.ts";
import type { ExitCode } from "../failure.ts";
import { printAnswer, type Layout } from "../print.ts";
import { table } from "../text/columns.ts";
import { bytes } from "../text/quantities.ts";
import { oneLine } from "../text/sanitise.ts";
import { repository } from "./worktrees.ts";

type DiskUsage = Awaited<ReturnType<Client["get_disk_usage"]>>;

/** `svc disk` */
export const disk = async ({ json }: { json?: boolean }): Promise<ExitCode> =>
  printAnswer(await connect().client.get_disk_usage(), json, diskPage);

/** What each repository takes, then what is free and where the floor is. */
export const diskPage = (usage: DiskUsage, layout: Layout): string =>
  [repositoryTable(usage.repositories, layout), freeTable(usage, layout), floor(usage, layout)].join("\n\n");

const repositoryTable = (all: DiskUsage["repositories"], layout: Layout): string => {
  // A repository that could not be cloned is known by its worktree only, and takes nothing.
  const list = all.filter((each) => each.cache_bytes + each.worktree_bytes > 0);
  if (list.length === 0) return "No repositories on disk";
  const known = list.filter((each) => each.repo_key !== null).length;
  type Measure = (each: DiskUsage["repositories"][number]) => number;
  const column = (measure: Measure, text: (value: number) => string): string[] => {
    const values = list.map(measure);
    return [...values, values.reduce((sum, value) => sum + value, 0)].map(text);
  };
  const names = list.map((each) =>
    each.repo_key === null ? "(worktrees without a repository)" : repository(each.repo_url),
  );
  const lines = table(
    [
      ["TOTAL", column((each) => each.cache_bytes + each.worktree_bytes, bytes), "right"],
      ["CLONE", column((each) => each.cache_bytes, bytes), "right"],
      ["WORKTREES", column((each) => each.worktree_bytes, bytes), "right"],
      ["COUNT", column((each) => each.worktrees, String), "right"],
      ["REPOSITORY", [...names, known === 1 ? "1 repository" : `${known} repositories`]],
    ],
    { ...layout, cutAt: "start" },
  );
  return [...lines.slice(0, -1), layout.paint("dim", lines.at(-1) ?? "")].join("\n");
};

const freeTable = ({ volumes, min_free_bytes: least }: DiskUsage, layout: Layout): string =>
  table(
    [
      ["FREE", volumes.map((volume) => bytes(volume.free_bytes)), "right"],
      ["OF", volumes.map((volume) => bytes(volume.total_bytes)), "right"],
      ["FOR", volumes.map(({ purpose }) => purpose)],
      ["PATH", volumes.map(({ path }) => oneLine(path))],
    ],
    { ...layout, cutAt: "start" },
  )
    .map((line, index) => {
      const free = volumes[index - 1]?.free_bytes ?? null;
      return free !== null && free < least ? layout.paint("red", line) : line;
    })
    .join("\n");

const floor = ({ volumes, min_free_bytes: least }: DiskUsage, { paint }: Layout): string => {
  if (least === 0) return "There is no floor: SERVICE_MIN_FREE_DISK_BYTES is 0";
  const below = volumes.some(({ free_bytes: free }) => free !== null && free < least);
  return below
    ? paint(
        "red",
        `No job is accepted: less than ${bytes(least)} is free. Remove worktrees: svc worktrees cleanup`,
      )
    : paint("dim", `No job is accepted with less than ${bytes(least)} free`);
};
