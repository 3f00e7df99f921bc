import type { Worktree } from "../../contract/worktree.ts";
import { bytes } from "./bytes.ts";
import { aligned, rightAligned } from "./columns.ts";
import { age } from "./duration.ts";
import type { Layout } from "./job-facts.ts";
import { oneLine } from "./sanitise.ts";
import { paintWorktreeStatus } from "./worktree-status.ts";

/** A worktree a line, then what they come to. Columns that a narrow terminal has no room for are in `svc worktrees show`. */
export const worktreeTable = (list: readonly Worktree[], { paint, columns = 250 }: Layout): string => {
  const roomy = columns >= 100;
  const ages = rightAligned(["AGE", ...list.map((worktree) => age(worktree.age_hours * 3_600_000))]);
  const sizes = rightAligned(["SIZE", ...list.map((worktree) => bytes(worktree.size_bytes))]);
  const rows = [null, ...list].map((worktree, index) => [
    worktree === null ? "ID" : oneLine(worktree.worktree_id),
    worktree === null ? "STATUS" : worktree.status,
    ages[index] ?? "",
    sizes[index] ?? "",
    ...(roomy ? [worktree === null ? "PUSHED" : pushedWord(worktree.pushed)] : []),
    ...(roomy ? [worktree === null ? "KIND" : kind(worktree)] : []),
    worktree === null ? "REPOSITORY" : repository(worktree.repo_url),
  ]);
  const [head = "", ...lines] = aligned(rows, { columns, keep: "end" });
  const painted = lines.map((line, index) => {
    const status = list[index]?.status;
    // An id has no letters beyond f: the first place that reads like the status is its cell.
    return status === undefined ? line : line.replace(status, () => paintWorktreeStatus(status, paint));
  });
  return [paint("bold", head), ...painted, paint("dim", total(list))].join("\n");
};

const pushedWord = (pushed: boolean | null): string => {
  if (pushed === null) return "–";
  return pushed ? "yes" : "no";
};

/** A repository's address as a list shows it. */
export const repository = (url: string): string => (url === "" ? "(none)" : oneLine(url));

const kind = ({ prepared }: Worktree): string => (prepared ? "prepared" : "job");

const total = (list: readonly Worktree[]): string => {
  const size = list.reduce((sum, { size_bytes }) => sum + (size_bytes ?? 0), 0);
  const unpushed = list.filter(({ pushed }) => pushed === false).length;
  const failed = list.filter(({ status }) => status === "failed").length;
  return [
    `${list.length} ${list.length === 1 ? "worktree" : "worktrees"}, ${bytes(size)}`,
    ...(unpushed > 0 ? [`${unpushed} not pushed`] : []),
    ...(failed > 0 ? [`${failed} failed: svc worktrees show ID says why`] : []),
  ].join("; ");
};
