import { z } from "zod";
import { operation } from "./operation.ts";

export const DiffFormat = z.enum(["patch", "stat", "names"]);
export type DiffFormat = z.infer<typeof DiffFormat>;

const ChangedFile = z
  .object({
    path: z.string().meta({ example: "src/date.ts" }),
    old_path: z.string().nullable().describe("Where a renamed file was; null: not renamed"),
    status: z.enum(["added", "modified", "deleted", "renamed", "type_changed"]).meta({ example: "modified" }),
    insertions: z.int().meta({ example: 3 }),
    deletions: z.int().meta({ example: 2 }),
    binary: z.boolean().meta({ example: false }),
    size: z.int().meta({ description: "Its bytes, before or after, whichever are more", example: 1840 }),
    left_out: z.boolean().meta({ description: "Not in diff, where it does not fit", example: false }),
  })
  .meta({ id: "ChangedFile" });
export type ChangedFile = z.infer<typeof ChangedFile>;

/** Names the first files that do not fit into a diff, with their sizes and lines. */
export const leftOutText = (files: readonly ChangedFile[]): string => {
  const left = files.filter(({ left_out }) => left_out);
  const named = left.slice(0, 20).map(({ path, size, insertions, deletions, binary }) => {
    const lines = binary ? "binary" : `+${insertions} −${deletions}`;
    return `${path} (${size.toLocaleString("en")} bytes, ${lines})`;
  });
  return [...named, ...(left.length > 20 ? [`${left.length - 20} more`] : [])].join(", ");
};

const sha = "9f2c1e7b5a3d4f60718293a4b5c6d7e8f9012345";
const patch = `diff --git a/src/date.ts b/src/date.ts
--- a/src/date.ts
+++ b/src/date.ts
@@ -1 +1 @@
-export const day = 1;
+export const day = 2;
`;

export const JobDiff = z
  .object({
    job_id: z.string().meta({ format: "uuid", example: "0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10" }),
    source: z.enum(["worktree", "branch", "salvage", "none"]).meta({
      description:
        "What is compared: the files of the worktree as they are now, the commit on the job's branch, or its saved work; none: the job has changed nothing",
      example: "branch",
    }),
    base: z.string().nullable().meta({
      description: "Commit that it is compared with; null: nothing was there before",
      example: "4b1d0c2e7f6a59483726150f9e8d7c6b5a493827",
    }),
    head: z
      .string()
      .nullable()
      .meta({ description: "Commit with the change; null: it is in files only", example: sha }),
    diff_stat: z.object({
      files: z.int().meta({ example: 1 }),
      insertions: z.int().meta({ example: 3 }),
      deletions: z.int().meta({ example: 2 }),
    }),
    files: z.array(ChangedFile).describe("1,000 changed files at most: those left out, then the first"),
    diff: z.string().meta({ description: "The change in the format that was asked for", example: patch }),
    truncated: z.boolean().meta({
      description: "diff lacks files: those that are left_out, or names and statistics beyond max_bytes",
      example: false,
    }),
    altered: z.boolean().meta({
      description: "diff cannot be applied: secrets in it are masked, or bytes that are not UTF-8 replaced",
      example: false,
    }),
    note: z
      .string()
      .nullable()
      .meta({ description: "What is missing in diff, and what to do", example: null }),
  })
  .meta({ id: "JobDiff" });
export type JobDiff = z.infer<typeof JobDiff>;

export const diffOperations = {
  get_diff: operation({
    title: "Get the change of a job",
    summary: "What a job has changed over its base, also while it runs: the changed files, and a patch.",
    input: z.strictObject({
      job_id: z.string().describe("UUID of the job"),
      format: DiffFormat.default("patch").describe(
        "patch: as git apply takes it; stat: changed lines of each file; names: the paths",
      ),
      max_bytes: z
        .int()
        .min(1000)
        .max(10_000_000)
        .default(100_000)
        .describe("Size of diff at most; the largest files are left out of it, and named"),
      repository: z
        .string()
        .max(2048)
        .default("")
        .describe("Name or URL of a further repository of the job; empty: its own"),
    }),
    output: JobDiff.extend({ success: z.literal(true) }),
    http: { method: "get", path: "/jobs/{job_id}/diff" },
    // It may fetch the job's branch.
    annotations: { readOnly: true, destructive: false, idempotent: true, openWorld: true },
    errors: ["invalid_request", "job_not_found", "change_not_found", "worktree_failed"],
  }),
};
