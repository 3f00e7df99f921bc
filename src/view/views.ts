import type { Answer } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import { factLines } from "./columns.ts";
import { jobPage, jobTable } from "./job.ts";
import { messageLine } from "./message.ts";
import type { Layout } from "./paint.ts";
import { secretName, secretStored, secretTable } from "./secrets.ts";
import { bytes, counted } from "./quantities.ts";
import { instanceTable, profileEntry, usagePage } from "./service.ts";
import { cleanupReport, diskPage, worktreePage, worktreeTable } from "./worktrees.ts";

type Views = {
  [Name in keyof Operations]?: (answer: Answer<Operations[Name]>, layout: Layout) => string;
};

/** How `svc` shows the answer of each operation that is a command. */
export const views = {
  list_jobs: ({ jobs }, layout) => jobTable(jobs, { ...layout, now: Date.now() }),
  get_job: ({ job }, layout) => jobPage(job, { ...layout, now: Date.now() }),
  answer_job: ({ job }) => `The answer is stored, and the agent of job ${job.id.slice(0, 8)} gets it`,
  message_job: messageLine,
  take_back_message: ({ message: { id, status } }) =>
    status === "withdrawn"
      ? `Message ${id.slice(0, 8)} is taken back`
      : `Message ${id.slice(0, 8)} is to be taken back; the agent has not confirmed it`,
  cancel_job: ({ job: { id, status, worktree_path: worktree } }) => {
    if (status !== "cancelled") return `Job ${id} had ended before: ${status}`;
    const short = id.slice(0, 8);
    const work = `\nWhat it has changed is saved once its agent has ended: svc diff ${short}, svc checkout ${short}`;
    return `Job ${id} is cancelled${worktree === null ? "" : work}`;
  },
  list_profiles: ({ profiles }, layout) =>
    profiles.map((profile) => profileEntry(profile, layout)).join("\n\n") || "No profiles",
  list_worktrees: ({ worktrees, next_cursor: next }, layout) =>
    [
      worktreeTable(worktrees, layout),
      ...(!next ? [] : [`There are more: svc worktrees list --cursor ${next}`]),
    ].join("\n"),
  get_worktree: ({ worktree }, layout) => worktreePage(worktree, layout),
  cleanup_worktrees: (answer, layout) =>
    answer.results.length === 0 ? "No worktree is that old" : cleanupReport(answer, layout),
  clear_environments: ({ removed, bytes: size, in_use: left }) =>
    `${counted(removed, "warm environment")} removed, ${bytes(size)} freed${left === 0 ? "" : `; ${left} in use`}`,
  get_disk_usage: diskPage,
  list_secrets: ({ secrets }, layout) => secretTable(secrets, layout),
  set_secret: ({ secret }) => secretStored(secret),
  remove_secret: ({ secret }) => `${secretName(secret)} is removed`,
  list_instances: (answer, layout) => instanceTable(answer, layout, Date.now()),
  get_usage: usagePage,
  get_visibility: ({ visibility }, layout) =>
    factLines(
      Object.entries(visibility).map(([flag, shown]) => [flag.replace("show_", ""), shown ? "on" : "off"]),
      layout,
    ).join("\n"),
} satisfies Views;
