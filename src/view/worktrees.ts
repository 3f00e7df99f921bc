import type { CleanupResult, RepositoryUsage, Worktree } from "../contract/worktree.ts";
import type { Answer } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import { factLines, list, quiet, table, warningsFact, wrap } from "./columns.ts";
import { paintStatus, type Layout, type Paint } from "./paint.ts";
import { age, bytes, counted, worktreesText } from "./quantities.ts";
import { savedWork } from "./saved-work.ts";
import { flagWords, oneLine, optional, sanitise, shellWord } from "./sanitise.ts";

/** One line per worktree, then their totals. `svc worktrees show` has what does not fit into a narrow terminal. */
export const worktreeTable = (worktrees: readonly Worktree[], layout: Layout): string =>
  list(
    worktrees,
    [
      ["ID", ({ worktree_id: id }) => oneLine(id)],
      ["STATUS", ({ status }) => paintStatus(status, layout.paint)],
      ["AGE", ageOf, { right: true, leaves: 4 }],
      ["SIZE", ({ size_bytes: size }) => bytes(size), { right: true, leaves: 3 }],
      ["PUSHED", ({ pushed: value }) => (value === null ? "–" : yesOrNo(value))],
      ["KIND", ({ prepared }) => (prepared ? "prepared" : "job"), { leaves: 1 }],
      ["REPOSITORY", ({ repo_url: url }) => repository(url), { leaves: 2 }],
    ],
    {
      empty: "No worktrees",
      below: worktrees.length === 0 ? [] : [totalOf(worktrees)],
      cutAt: "start",
      least: 5,
      ...layout,
    },
  );

/** A repository's URL as a list shows it. */
const repository = (url: string): string => (url === "" ? "(none)" : oneLine(url));

const ageOf = ({ age_hours: hours }: Worktree): string => age(hours * 3_600_000);

const yesOrNo = (value: boolean): string => (value ? "yes" : "no");

const totalOf = (worktrees: readonly Worktree[]): string => {
  const size = worktrees.reduce((sum, { size_bytes }) => sum + (size_bytes ?? 0), 0);
  const unpushed = worktrees.filter(({ pushed }) => pushed === false).length;
  const failed = worktrees.filter(({ status }) => status === "failed").length;
  return [
    `${counted(worktrees.length, "worktree")}, ${bytes(size)}`,
    ...(unpushed > 0 ? [`${unpushed} not pushed`] : []),
    ...(failed > 0 ? [`${failed} failed: svc worktrees show ID says why`] : []),
  ].join("; ");
};

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
      ["Measured", optional(worktree.measured_at)],
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

type DiskUsage = Answer<Operations["get_disk_usage"]>;

/** Disk usage by repository with what they come to, then free space, and the floor below which no job is accepted. */
export const diskPage = (
  { repositories, volumes, min_free_bytes: least, environments, max_environment_bytes: most }: DiskUsage,
  layout: Layout,
): string => {
  const { paint } = layout;
  // A repository that could not be cloned is known by its worktree only, and takes no space.
  const used = repositories.filter((each) => each.cache_bytes || each.worktree_bytes || each.unmeasured);
  const kept = repositories.flatMap((each) => each.kept);
  const isLow = (free: number | null): boolean => free !== null && free < least;
  const use = list(
    used,
    [
      ["TOTAL", (each) => bytes(each.cache_bytes + each.worktree_bytes), right],
      ["CLONE", (each) => bytes(each.cache_bytes), right],
      ["WORKTREES", (each) => bytes(each.worktree_bytes), right],
      ["COUNT", (each) => String(each.worktrees), right],
      [
        "REPOSITORY",
        (each) => (each.repo_key === null ? "(worktrees without a repository)" : repository(each.repo_url)),
      ],
    ],
    {
      empty: "No repositories on disk",
      below: [
        ...(used.length === 0 ? [] : [useInAll(used)]),
        ...kept.map((line) => `Kept: ${oneLine(line)}`),
      ],
      cutAt: "start",
      ...layout,
    },
  );
  const free = table(
    volumes,
    [
      ["FREE", ({ free_bytes: size }) => (isLow(size) ? paint("red", bytes(size)) : bytes(size)), right],
      ["OF", (volume) => bytes(volume.total_bytes), right],
      ["FOR", ({ purpose }) => purpose],
      ["PATH", ({ path }) => oneLine(path)],
    ],
    { ...layout, cutAt: "start" },
  );
  const warm = table(
    environments,
    [
      ["WARM", (each) => bytes(each.bytes), right],
      ["COUNT", ({ entries }) => String(entries), right],
      ["USED", ({ used_at: used }) => oneLine(used.slice(0, 16).replace("T", " "))],
      ["REPOSITORY", (each) => repository(each.repo_url)],
    ],
    { ...layout, cutAt: "start" },
  );
  const warmBytes = environments.reduce((sum, each) => sum + each.bytes, 0);
  const refuses = volumes.some((volume) => isLow(volume.free_bytes));
  const floor =
    least === 0
      ? "There is no floor: SERVICE_MIN_FREE_DISK_BYTES is 0"
      : `No job is accepted with less than ${bytes(least)} free${refuses ? ". Remove worktrees: svc worktrees cleanup" : ""}`;
  const warmPart =
    environments.length === 0 ? [] : [[...warm, `${bytes(warmBytes)} of ${bytes(most)}`].join("\n")];
  return [use, ...warmPart, free.join("\n"), paint(refuses ? "red" : "dim", floor)].join("\n\n");
};

const right = { right: true } as const;

const useInAll = (used: readonly RepositoryUsage[]): string => {
  const whole = used.reduce((sum, each) => sum + each.cache_bytes + each.worktree_bytes, 0);
  const worktrees = used.reduce((sum, each) => sum + each.worktrees, 0);
  const unmeasured = used.reduce((sum, each) => sum + each.unmeasured, 0);
  const known = used.filter((each) => each.repo_key !== null).length;
  const repositories = known === 1 ? "1 repository" : `${known} repositories`;
  return `${bytes(whole)}: ${repositories}, ${worktreesText({ worktrees, unmeasured })}`;
};

type Cleanup = Answer<Operations["cleanup_worktrees"]>;

/** Each worktree with its jobs and its work, or with the reason why it stays, then the totals. */
export const cleanupReport = ({ results, removed, dry_run: dry }: Cleanup, layout: Layout): string => {
  const { paint, columns = 250 } = layout;
  const did = (verb: string): string => (dry ? `would be ${verb}` : verb);
  const rows = results.flatMap((result) => [
    `${outcome(result, did, paint)}  ${oneLine(result.path)}`,
    ...remarks(result, did)
      .flatMap((text) => wrap(text, Math.max(20, columns - 4)))
      .map((line) => `    ${line}`),
  ]);
  const freed = results.reduce((sum, result) => sum + (result.removed ? (result.size_bytes ?? 0) : 0), 0);
  const left = results.filter(({ success }) => !success).length;
  const total = `${removed} ${did("removed")}, ${bytes(freed)} freed`;
  return [...rows, ...quiet([total + (left === 0 ? "" : `; ${left} left in place`)], layout)].join("\n");
};

/** An earlier call removed it. */
const wasRemoved = ({ success, removed }: CleanupResult): boolean => success && !removed;

const outcome = (result: CleanupResult, did: (verb: string) => string, paint: Paint): string => {
  if (wasRemoved(result)) return "was removed before";
  const size = bytes(result.size_bytes);
  return `${result.success ? did("removed") : paint("yellow", "left")}  ${size}`;
};

const remarks = (result: CleanupResult, did: (verb: string) => string): string[] => {
  const { error, cancelled_jobs: jobs, salvage_ref: ref } = result;
  const saved = wasRemoved(result) ? "what was not pushed then is under" : `unpushed work ${did("saved")} as`;
  return [
    ...(error === null ? [] : [flagWords(oneLine(error))]),
    ...(jobs.length === 0 ? [] : [`${did("cancelled")}: ${jobs.map(oneLine).join(", ")}`]),
    ...(ref === null ? [] : [`${saved} ${oneLine(ref)}`]),
  ];
};
