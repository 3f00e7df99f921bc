import type { Worktree } from "../../contract/worktree.ts";
import { bytes } from "./bytes.ts";
import { age } from "./duration.ts";
import { factLines, optional, warningsFact } from "./job-facts.ts";
import type { Fact, Layout } from "./job-facts.ts";
import { oneLine, sanitise } from "./sanitise.ts";
import { savedWork, shellWord } from "./saved-work.ts";
import { paintWorktreeStatus } from "./worktree-status.ts";

type Options = Layout & {
  /** Git directory that keeps its saved work, where it is known. */
  clone: string | null;
};

/** Everything about a worktree, as `svc worktrees show` shows it. */
export const worktreePage = (worktree: Worktree, { clone, ...layout }: Options): string => {
  const { repo_url: url, salvage_ref: ref } = worktree;
  const facts: Fact[] = [
    ["ID", oneLine(worktree.worktree_id)],
    ["Status", paintWorktreeStatus(worktree.status, layout.paint)],
    ["Error", worktree.error === null ? null : sanitise(worktree.error).trimEnd(), "prose"],
    ["Kind", worktree.prepared ? "prepared" : "made for a job"],
    ["Repository", url === "" ? "none: an empty one of its own" : oneLine(url)],
    ["Base", url === "" ? null : optional(worktree.base_ref)],
    ["Branch", optional(worktree.branch)],
    ["Path", optional(worktree.path)],
    ["Size", worktree.size_bytes === null ? null : bytes(worktree.size_bytes)],
    ["Pushed", pushed(worktree)],
    ["Saved work", ref === null ? null : savedWork({ ref, gitDir: clone, id: worktree.worktree_id })],
    warningsFact(worktree.warnings),
    ["Job", optional(worktree.job_id)],
    ["Instance", optional(worktree.pod_name)],
    ["Created", `${oneLine(worktree.created_at)} (${age(worktree.age_hours * 3_600_000)} ago)`],
    ["Run in it", usable.has(worktree.status) ? runInIt(worktree.worktree_id) : null],
  ];
  return factLines(facts, layout).join("\n");
};

/** What `svc worktrees prepare` ends with. */
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

const usable: ReadonlySet<Worktree["status"]> = new Set(["ready", "in_use"]);

const pushed = (worktree: Worktree): string | null => {
  if (worktree.pushed === null)
    return worktree.status === "in_use" ? "not known while a job is at work" : null;
  return worktree.pushed ? "yes" : "no";
};
