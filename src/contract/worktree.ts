import { z } from "zod";
import { Instant } from "./job.ts";
import { EnvironmentUsage } from "./environment.ts";
import { operation } from "./operation.ts";

/**
 * - preparing: being cloned and checked out
 * - ready: no job uses it
 * - in_use: a job runs in it or waits for it
 * - failed: it could not be made, or its directory is missing; `error` says what to do
 * - removed: its directory is deleted; its branch and its salvage ref are in `cached_clone`
 */
const worktreeStatuses = ["preparing", "ready", "in_use", "failed", "removed"] as const;

export const WorktreeStatus = z.enum(worktreeStatuses);
export type WorktreeStatus = z.infer<typeof WorktreeStatus>;

// For the examples.
const repoUrl = "https://github.com/acme/app";
const worktreeId = "6f1d2c3b-4a59-4e68-8776-95a4b3c2d1e0";
const path = `/var/lib/svc/worktrees/${worktreeId}`;

export const Worktree = z
  .object({
    worktree_id: z
      .string()
      .meta({ description: "UUID; the job's id when it was made for a job", example: worktreeId }),
    repo_url: z.string().meta({ description: "Empty: it has no remote repository", example: repoUrl }),
    repo_key: z
      .string()
      .nullable()
      .meta({ description: "Directory of the cached clone under the clone root", example: "3f5a0c9d1e2b" }),
    base_ref: z.string().meta({ example: "main" }),
    branch: z.string().meta({ example: "service/wt-6f1d2c3b" }),
    path: z.string().meta({ description: "Absolute path on the disk of its instance", example: path }),
    status: WorktreeStatus.meta({ example: "ready" }),
    job_id: z
      .string()
      .nullable()
      .describe("The job that runs in it, else the next that waits for it, else the last that used it"),
    pod_name: z.string().meta({ example: "build-1" }),
    created_at: Instant,
    age_hours: z.number().meta({ description: "Hours since created_at, to two decimals", example: 0.25 }),
    size_bytes: z.int().nullable().meta({
      description: "Size on disk; null: there is no directory, or it is not known",
      example: 4_210_688,
    }),
    pushed: z.boolean().nullable().meta({
      description: "Whether the remote has everything in it; null: unknown while a job runs in it",
      example: true,
    }),
    measured_at: Instant.nullable().describe(
      "When size_bytes and pushed were measured. A list answers with what is known, and measures what may have changed; null: not yet",
    ),
    prepared: z.boolean().meta({
      description: "Made by prepare_worktree; false: made for a job that named no worktree",
      example: true,
    }),
    salvage_ref: z
      .string()
      .nullable()
      .describe("Ref in cached_clone with the work that was not pushed when it was removed"),
    cached_clone: z.string().nullable().meta({
      description: "Git directory on the instance that has salvage_ref; null: it is on another instance",
      example: "/var/lib/svc/repos/3f5a0c9d1e2b/saved.git",
    }),
    warnings: z
      .array(z.string())
      .describe("What the checkout left out, a sentence each; `kept: …` names what git cannot save"),
    error: z.string().nullable(),
  })
  .meta({ id: "Worktree" });
export type Worktree = z.infer<typeof Worktree>;

const CleanupResult = z
  .object({
    path: z.string().meta({ example: path }),
    worktree_id: z
      .string()
      .nullable()
      .meta({ description: "Null: the service has no worktree at this path", example: worktreeId }),
    success: z.boolean().meta({ description: "It is removed, by this call or before", example: true }),
    removed: z.boolean().meta({
      description: "This call removed it or, in a dry run, would; false with success: it was removed before",
      example: true,
    }),
    error: z
      .string()
      .nullable()
      .describe("Why it was left in place or, if it was removed, what was lost with it"),
    cancelled_jobs: z
      .array(z.string())
      .describe("Jobs that ran in it or waited for it and were or, in a dry run, would be cancelled"),
    size_bytes: z
      .int()
      .nullable()
      .meta({ description: "Disk space that its removal frees", example: 4_210_688 }),
    salvage_ref: z
      .string()
      .nullable()
      .meta({
        description: "Ref in the repository's saved.git with the work that was not pushed",
        example: `refs/service/salvage/${worktreeId}`,
      }),
  })
  .meta({ id: "CleanupResult" });
export type CleanupResult = z.infer<typeof CleanupResult>;

const Volume = z
  .object({
    path: z.string().meta({ example: "/var/lib/svc/repos" }),
    purpose: z.enum(["repositories", "worktrees", "jobs"]).meta({ example: "repositories" }),
    free_bytes: z.int().nullable().meta({ description: "Null: unknown", example: 52_613_349_376 }),
    total_bytes: z.int().nullable().meta({ example: 107_374_182_400 }),
  })
  .meta({ id: "Volume" });
export type Volume = z.infer<typeof Volume>;

const RepositoryUsage = z
  .object({
    repo_key: z
      .string()
      .nullable()
      .meta({ description: "Null: worktrees without a repository", example: "3f5a0c9d1e2b" }),
    repo_url: z.string().meta({ example: repoUrl }),
    cache_bytes: z.int().meta({ description: "Size of the cached clone on disk", example: 18_874_368 }),
    worktrees: z.int().meta({ description: "How many worktrees it has", example: 1 }),
    worktree_bytes: z.int().meta({ description: "Their size on disk", example: 4_210_688 }),
    unmeasured: z.int().meta({ description: "Worktrees that are not measured yet", example: 0 }),
    kept: z
      .array(z.string())
      .describe(
        "Worktrees that are not removed because git cannot save all of their content: `{worktree_id}: nested repository at vendor/x`; older clones that were set aside: `damaged clone at {path}`",
      ),
  })
  .meta({ id: "RepositoryUsage" });
export type RepositoryUsage = z.infer<typeof RepositoryUsage>;

const WorktreeId = z
  .string()
  .max(200)
  .describe("UUID of the worktree, or at least four digits it begins with");

export const worktreeOperations = {
  prepare_worktree: operation({
    title: "Prepare a worktree",
    command: { name: "worktrees prepare", args: ["repo_url"], group: "Worktrees" },
    summary:
      "Clone or update a repository and check out a worktree on a branch of its own, for run_task's worktree_id. Answers when it is ready, or after 45 s with status preparing: then poll get_worktree.",
    input: z.strictObject({
      repo_url: z
        .string()
        .min(1, "must not be empty")
        .max(2048)
        .meta({ description: "Git repository", example: repoUrl }),
      base_ref: z
        .string()
        .max(255)
        .default("")
        .describe(
          "Branch or tag it is based on; empty: SERVICE_BASE_REF (main) where the repository has it, else its default branch",
        ),
    }),
    output: z.object({
      success: z.literal(true),
      worktree_id: z.string().meta({ example: worktreeId }),
      worktree: Worktree,
    }),
    http: { method: "post", path: "/worktrees" },
    annotations: { readOnly: false, destructive: false, idempotent: false, openWorld: true },
    errors: [
      "invalid_request",
      "invalid_repo_url",
      "invalid_ref",
      "clone_failed",
      "worktree_failed",
      "repo_unavailable",
      "draining",
      "queue_full",
      "disk_full",
      "store_unavailable",
    ],
  }),
  get_worktree: operation({
    title: "Get a worktree",
    command: { name: "worktrees show", args: ["worktree_id"], group: "Worktrees" },
    summary: "One worktree: its status, path and branch, its size and whether it is pushed.",
    input: z.strictObject({ worktree_id: WorktreeId }),
    output: z.object({ success: z.literal(true), worktree: Worktree }),
    http: { method: "get", path: "/worktrees/{worktree_id}" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: ["worktree_not_found"],
  }),
  list_worktrees: operation({
    title: "List worktrees",
    command: { name: "worktrees list", group: "Worktrees" },
    summary: "The worktrees on disk, oldest first: prepared ones and those of jobs, with size and age.",
    input: z.strictObject({
      limit: z.int().min(1).max(1000).default(100).describe("How many at most"),
      cursor: z.string().max(200).default("").describe("next_cursor of the previous page"),
    }),
    output: z.object({
      success: z.literal(true),
      count: z.int().meta({ example: 1 }),
      worktrees: z.array(Worktree),
      next_cursor: z.string().nullable().describe("Cursor of the next page; null: there is none"),
    }),
    http: { method: "get", path: "/worktrees" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: ["invalid_request"],
  }),
  cleanup_worktrees: operation({
    title: "Remove worktrees",
    command: { name: "worktrees cleanup", args: ["paths"], group: "Worktrees" },
    summary:
      "Remove worktrees by path, by age, or both. A worktree that a job uses or that has unpushed work is left in place. With force its jobs are cancelled and its work is saved under a salvage ref first.",
    input: z.strictObject({
      paths: z
        .string()
        .max(100_000)
        .default("")
        .describe("Comma-separated paths (or worktree ids) to remove"),
      max_age_hours: z
        .int()
        .min(0)
        .max(876_000)
        .default(0)
        .describe("Remove all older than this many hours; 0: none by age"),
      force: z
        .boolean()
        .default(false)
        .describe(
          "Remove also those in use (their jobs are cancelled) and unpushed (their work is saved first)",
        ),
      dry_run: z.boolean().default(false).describe("Only report what would be removed"),
    }),
    output: z.object({
      success: z.literal(true),
      removed: z
        .int()
        .meta({ description: "How many were removed; in a dry run, how many would be", example: 1 }),
      dry_run: z.boolean().meta({ example: false }),
      results: z.array(CleanupResult),
    }),
    http: { method: "delete", path: "/worktrees" },
    annotations: { readOnly: false, destructive: true, idempotent: true },
    errors: ["invalid_request"],
  }),
  get_disk_usage: operation({
    title: "Show disk usage",
    command: { name: "disk", group: "Worktrees" },
    summary:
      "Disk space that each repository's cached clone, worktrees and warm environments take, and the free space.",
    input: z.strictObject({}),
    output: z.object({
      success: z.literal(true),
      min_free_bytes: z.int().meta({
        description: "With less free space no job is accepted; 0: no limit",
        example: 1_073_741_824,
      }),
      volumes: z.array(Volume),
      repositories: z.array(RepositoryUsage).describe("Largest first"),
      max_environment_bytes: z.int().meta({
        description: "What warm environments may take in all (SERVICE_ENV_CACHE_BYTES); 0: none are kept",
        example: 21_474_836_480,
      }),
      environments: z
        .array(EnvironmentUsage)
        .describe("What is kept of setups for later jobs, by repository, largest first"),
    }),
    http: { method: "get", path: "/disk" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: [],
  }),
};
