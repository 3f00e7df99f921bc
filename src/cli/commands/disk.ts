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

/** Disk usage by repository, then free space and the floor. */
export const diskPage = (usage: DiskUsage, layout: Layout): string =>
  [
    repositoryTable(usage.repositories, layout),
    ...keptList(usage.repositories),
    freeTable(usage, layout),
    floor(usage, layout),
  ].join("\n\n");

/** Worktrees that stay because git cannot save all of them. */
const keptList = (all: DiskUsage["repositories"]): string[] => {
  const kept = all.flatMap((each) => each.kept);
  return kept.length === 0 ? [] : [["Kept", ...kept.map((line) => `  ${oneLine(line)}`)].join("\n")];
};

const repositoryTable = (all: DiskUsage["repositories"], layout: Layout): string => {
  // A repository that could not be cloned is known by its worktree only, and takes no space.
  const list = all.filter((each) => each.cache_bytes + each.worktree_bytes > 0);
  if (list.length === 0) return "No repositories on disk";
  const known = list.filter((each) => each.repo_key !== null).length;
  const sum = (measure: (each: (typeof list)[number]) => number): number =>
    list.reduce((whole, each) => whole + measure(each), 0);
  const total = {
    name: known === 1 ? "1 repository" : `${known} repositories`,
    cache_bytes: sum((each) => each.cache_bytes),
    worktree_bytes: sum((each) => each.worktree_bytes),
    worktrees: sum((each) => each.worktrees),
  };
  const rows = list.map((each) => ({
    ...each,
    name: each.repo_key === null ? "(worktrees without a repository)" : repository(each.repo_url),
  }));
  const lines = table<typeof total>(
    [...rows, total],
    [
      ["TOTAL", (each) => bytes(each.cache_bytes + each.worktree_bytes), "right"],
      ["CLONE", (each) => bytes(each.cache_bytes), "right"],
      ["WORKTREES", (each) => bytes(each.worktree_bytes), "right"],
      ["COUNT", (each) => String(each.worktrees), "right"],
      ["REPOSITORY", ({ name }) => name],
    ],
    { ...layout, cutAt: "start" },
  );
  return [...lines.slice(0, -1), layout.paint("dim", lines.at(-1) ?? "")].join("\n");
};

const freeTable = ({ volumes, min_free_bytes: least }: DiskUsage, layout: Layout): string =>
  table(
    volumes,
    [
      ["FREE", (volume) => bytes(volume.free_bytes), "right"],
      ["OF", (volume) => bytes(volume.total_bytes), "right"],
      ["FOR", ({ purpose }) => purpose],
      ["PATH", ({ path }) => oneLine(path)],
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
