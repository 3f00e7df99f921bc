import { z } from "zod";

/** A further repository of a submission. */
export const FurtherRepository = z
  .strictObject({
    repo_url: z
      .string()
      .min(1, "must not be empty")
      .max(2048)
      .meta({ example: "https://github.com/acme/lib" }),
    base_ref: z.string().max(255).default("").meta({ description: "As that of the task", example: "main" }),
  })
  .meta({ id: "FurtherRepository" });

/** A further repository of a job. */
export const JobRepository = z
  .object({
    repo_url: z.string().meta({ example: "https://github.com/acme/lib" }),
    base_ref: z.string().meta({ example: "main" }),
    path: z.string().nullable().describe("Where it is checked out; null: not yet"),
    branch: z.string().nullable(),
    base_sha: z.string().nullable().describe("Commit at which its branch began; null: not yet"),
    commit_sha: z.string().nullable(),
    cached_clone: z.string().nullable().describe("Where its work is kept; null: it was pushed"),
    pr_url: z.string().nullable(),
    error: z.string().nullable().describe("Why its work could not be delivered"),
  })
  .meta({ id: "JobRepository" });
export type JobRepository = z.infer<typeof JobRepository>;
