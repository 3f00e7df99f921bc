import type { Client } from "../../client/client.ts";
import { bytes } from "./bytes.ts";
import { aligned, rightAligned } from "./columns.ts";
import type { Layout } from "./job-facts.ts";
import { oneLine } from "./sanitise.ts";
import { repository } from "./worktree-table.ts";

type DiskUsage = Awaited<ReturnType<Client["get_disk_usage"]>>;

/** What each repository takes, then what is free and where the floor is. */
export const diskPage = (usage: DiskUsage, layout: Layout): string =>
  [repositoryTable(usage.repositories, layout), freeTable(usage, layout), floor(usage, layout)].join("\n\n");

const repositoryTable = (all: DiskUsage["repositories"], { paint, columns = 250 }: Layout): string => {
  // What could not be cloned is known by its worktree only, and takes nothing.
  const list = all.filter((each) => each.cache_bytes + each.worktree_bytes > 0);
  if (list.length === 0) return "No repositories on disk";
  const clones = list.reduce((sum, each) => sum + each.cache_bytes, 0);
  const worktrees = list.reduce((sum, each) => sum + each.worktree_bytes, 0);
  const count = list.reduce((sum, each) => sum + each.worktrees, 0);
  const known = list.filter((each) => each.repo_key !== null).length;
  const cells = [
    [
      "TOTAL",
      ...list.map((each) => bytes(each.cache_bytes + each.worktree_bytes)),
      bytes(clones + worktrees),
    ],
    ["CLONE", ...list.map((each) => bytes(each.cache_bytes)), bytes(clones)],
    ["WORKTREES", ...list.map((each) => bytes(each.worktree_bytes)), bytes(worktrees)],
    ["COUNT", ...list.map((each) => String(each.worktrees)), String(count)],
  ].map(rightAligned);
  const names = [
    "REPOSITORY",
    ...list.map((each) =>
      each.repo_key === null ? "(worktrees without a repository)" : repository(each.repo_url),
    ),
    known === 1 ? "1 repository" : `${known} repositories`,
  ];
  const rows = names.map((name, index) => [...cells.map((column) => column[index] ?? ""), name]);
  const lines = aligned(rows, { columns, keep: "end" });
  return lines
    .map((line, index) => {
      if (index === 0) return paint("bold", line);
      return index === lines.length - 1 ? paint("dim", line) : line;
    })
    .join("\n");
};

const freeTable = (
  { volumes, min_free_bytes: least }: DiskUsage,
  { paint, columns = 250 }: Layout,
): string => {
  const free = rightAligned(["FREE", ...volumes.map((volume) => bytes(volume.free_bytes))]);
  const size = rightAligned(["OF", ...volumes.map((volume) => bytes(volume.total_bytes))]);
  const rows = [
    ["FREE", "OF", "FOR", "PATH"],
    ...volumes.map((volume) => ["", "", volume.purpose, oneLine(volume.path)]),
  ];
  const [head = "", ...lines] = aligned(
    rows.map(([, , purpose = "", path = ""], index) => [free[index] ?? "", size[index] ?? "", purpose, path]),
    { columns, keep: "end" },
  );
  const painted = lines.map((line, index) => {
    const left = volumes[index]?.free_bytes ?? null;
    return left !== null && left < least ? paint("red", line) : line;
  });
  return [paint("bold", head), ...painted].join("\n");
};

const floor = ({ volumes, min_free_bytes: least }: DiskUsage, { paint }: Layout): string => {
  if (least === 0) return "There is no floor: SERVICE_MIN_FREE_DISK_BYTES is 0";
  const below = volumes.some(({ free_bytes: free }) => free !== null && free < least);
  if (!below) return paint("dim", `No job is accepted with less than ${bytes(least)} free`);
  return paint(
    "red",
    `No job is accepted: less than ${bytes(least)} is free. Remove worktrees: svc worktrees cleanup`,
  );
};
