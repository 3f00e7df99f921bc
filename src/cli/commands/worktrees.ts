import type { Worktree } from "../../contract/worktree.ts";
import { connect } from "../connect.ts";
import type { ExitCode } from "../failure.ts";
import { resolveJobId } from "../job-id.ts";
import { printAnswer } from "../print.ts";
import type { Layout } from "../../view/paint.ts";
import { factLines, table, wrap, type Column, age, bytes, counted } from "../../view/columns.ts";
import { warningsFact } from "../../view/job-page.ts";
import { savedWork } from "../../view/saved-work.ts";
import { flagWords, oneLine, optional, sanitise, shellWord } from "../../view/sanitise.ts";
import { paintStatus } from "../../view/paint.ts";
import type { Client } from "../../client/client.ts";

/** `svc worktrees list` */
export const worktreesList = async ({ json }: { json?: boolean }): Promise<ExitCode> =>
  printAnswer(await connect().client.list_worktrees(), json, ({ worktrees }, layout) =>
    worktrees.length === 0 ? "No worktrees" : worktreeTable(worktrees, layout),
  );

/** One line per worktree, then their totals. `svc worktrees show` has what does not fit into a narrow terminal. */
export const worktreeTable = (list: readonly Worktree[], layout: Layout): string => {
  const { paint, columns = 250 } = layout;
  const from = (least: number, ...column: Column<Worktree>): Column<Worktree>[] =>
    columns >= least ? [column] : [];
  const lines = table(
    list,
    [
      ["ID", ({ worktree_id: id }) => oneLine(id)],
      ["STATUS", ({ status }) => paintStatus(status, paint)],
      ...from(63, "AGE", ageOf, "right"),
      ...from(80, "SIZE", ({ size_bytes: size }) => bytes(size), "right"),
      ["PUSHED", ({ pushed }) => (pushed === null ? "–" : yesOrNo(pushed))],
      ...from(100, "KIND", ({ prepared }) => (prepared ? "prepared" : "job")),
      ...from(80, columns >= 100 ? "REPOSITORY" : "REPO", ({ repo_url: url }) => repository(url)),
    ],
    // 80 columns have room for at least the end of a repository's name.
    { ...layout, cutAt: "start", least: 5 },
  );
  return [...lines, ...wrap(total(list), columns).map((line) => paint("dim", line))].join("\n");
};

/** A repository's URL as a list shows it. */
export const repository = (url: string): string => (url === "" ? "(none)" : oneLine(url));

const ageOf = ({ age_hours: hours }: Worktree): string => age(hours * 3_600_000);

const yesOrNo = (value: boolean): string => (value ? "yes" : "no");

const total = (list: readonly Worktree[]): string => {
  const size = list.reduce((sum, { size_bytes }) => sum + (size_bytes ?? 0), 0);
  const unpushed = list.filter(({ pushed }) => pushed === false).length;
  const failed = list.filter(({ status }) => status === "failed").length;
  return [
    `${counted(list.length, "worktree")}, ${bytes(size)}`,
    ...(unpushed > 0 ? [`${unpushed} not pushed`] : []),
    ...(failed > 0 ? [`${failed} failed: svc worktrees show ID says why`] : []),
  ].join("; ");
};

/** `svc worktrees show` */
export const worktreesShow = async (word: string, { json }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.get_worktree({ worktree_id: await resolveJobId(client, word) });
  return printAnswer(body, json, ({ worktree }, layout) => worktreePage(worktree, layout));
};

/** Everything about a worktree. */
export const worktreePage = (worktree: Worktree, layout: Layout): string => {
  const { worktree_id: id, repo_url: url, status, error, salvage_ref: ref } = worktree;
  return factLines(
    [
      ["ID", oneLine(id)],
      ["Status", paintStatus(status, layout.paint)],
      ["Error", error === null ? null : flagWords(sanitise(error)).trimEnd(), "prose"],
      ["Kind", worktree.prepared ? "prepared" : "made for a job"],
      ["Repository", url === "" ? "none: an empty one of its own" : oneLine(url)],
      ["Base", url === "" ? null : optional(worktree.base_ref)],
      ["Branch", optional(worktree.branch)],
      ["Path", optional(worktree.path)],
      ["Size", worktree.size_bytes === null ? null : bytes(worktree.size_bytes)],
      ["Pushed", pushed(worktree)],
      ["Saved work", ref === null ? null : savedWork({ ref, gitDir: worktree.cached_clone, id })],
      warningsFact(worktree.warnings),
      ["Job", optional(worktree.job_id)],
      ["Instance", optional(worktree.pod_name)],
      ["Created", `${oneLine(worktree.created_at)} (${ageOf(worktree)} ago)`],
      ["Run in it", status === "ready" || status === "in_use" ? runInIt(id) : null],
    ],
    layout,
  ).join("\n");
};

/** The block at the end of `svc worktrees prepare`. */
export const preparedPage = (worktree: Worktree, layout: Layout): string =>
  factLines(
    [
      ["ID", oneLine(worktree.worktree_id)],
      ["Path", optional(worktree.path)],
      ["Branch", optional(worktree.branch)],
      warningsFact(worktree.warnings),
      ["Run in it", runInIt(worktree.worktree_id)],
    ],
    layout,
  ).join("\n");

const runInIt = (id: string): string =>
  `svc run --worktree-id ${shellWord(oneLine(id))} "what is to be done" --wait`;

const pushed = ({ pushed: value, status }: Worktree): string | null => {
  if (value === null) return status === "in_use" ? "not known while a job is at work" : null;
  return yesOrNo(value);
};

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
