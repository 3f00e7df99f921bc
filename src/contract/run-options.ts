import { z } from "zod";

const TaskFile = z
  .strictObject({
    name: z
      .string()
      .regex(/^(?!\.{1,2}$)[^/\\\p{Cc}]+$/u, "must be a plain file name, without a directory")
      .refine((name) => new TextEncoder().encode(name).length <= 255, "must have at most 255 bytes")
      .meta({ example: "log.txt" }),
    content: z.string().min(1, "must not be empty").meta({ example: "12:00 the test failed" }),
    encoding: z.enum(["utf-8", "base64"]).default("utf-8").describe("How content is to be read"),
  })
  .refine(({ content, encoding }) => encoding !== "base64" || isBase64(content), {
    path: ["content"],
    error: "must be base64, as encoding says",
  })
  .meta({ id: "TaskFile" });
export type TaskFile = z.output<typeof TaskFile>;

/** Searches for a forbidden character: matching the whole would exhaust the stack on megabytes. */
export function isBase64(text: string): boolean {
  const foreign = text.search(/[^A-Za-z0-9+/]/);
  const isClean = foreign === -1 || /^={1,2}$/.test(text.slice(foreign, foreign + 3));
  return text.length % 4 === 0 && isClean;
}

/** Most files of a task, and bytes that they may have together. */
export const fileLimits = { files: 20, bytes: 25 * 1024 * 1024 };

const bytesOf = ({ content, encoding }: TaskFile): number =>
  encoding === "base64"
    ? (content.length * 3) / 4 - (content.slice(-2).split("=").length - 1)
    : new TextEncoder().encode(content).length;

export const TaskFiles = z
  .array(TaskFile)
  .max(fileLimits.files, "must be at most 20 files")
  .refine(
    (files) => new Set(files.map(({ name }) => name)).size === files.length,
    "must have a different name each",
  )
  .refine(
    (files) => files.reduce((sum, file) => sum + bytesOf(file), 0) <= fileLimits.bytes,
    "must have at most 25 MiB together",
  );

const optional = <Schema extends z.ZodType>(schema: Schema, description: string, example: z.output<Schema>) =>
  schema.nullable().default(null).meta({ description, example });

const modelName = /^[A-Za-z0-9][\w.:/@[\]-]{0,199}$/;
const amount = z.number().positive("must be more than 0").max(1_000_000);

const values = {
  model: optional(
    z.string().regex(modelName, "must be the alias or name of a model, such as opus"),
    "Model in place of the profile's",
    "opus",
  ),
  timeout_seconds: optional(
    z.int().min(1).max(604_800),
    "Seconds the agent may run; at most what the profile allows",
    1800,
  ),
  max_budget_usd: optional(amount, "USD the agent may spend; at most what the profile allows", 2.5),
  max_turns: optional(
    z.int().min(1).max(1_000_000),
    "Calls of the model; at most what the profile allows",
    40,
  ),
  branch: optional(
    z.string().min(1).max(200),
    "Name of the job's branch; the remote must not have it yet",
    "fix/dates",
  ),
  title: optional(
    z.string().regex(/^(?=.*\S)[^\p{Cc}]{1,200}$/u, "must be one line of 1 to 200 characters"),
    "Title of the pull request and of the service's commit",
    "Fix the dates",
  ),
  submodules: optional(
    z.union([z.boolean(), z.literal("recursive")]),
    "Whether submodules are checked out; `recursive`: theirs, too",
    true,
  ),
  lfs: optional(z.boolean(), "Whether files in Git LFS are downloaded", true),
  plan: optional(z.boolean(), "Whether a person approves the agent's plan before it works", true),
  checks: optional(
    z
      .array(z.string().regex(/^(?=.*\S)[^\0]{1,2000}$/s, "must be a command of 1 to 2,000 characters"))
      .min(1, "must not be empty")
      .max(8, "must be at most 8"),
    "Commands that check the work, besides the checks of the profile",
    ["npm test"],
  ),
  must_pass: optional(
    z.boolean(),
    "Whether the job also fails when a check stays red that was red before the work",
    true,
  ),
  setup_only: optional(z.boolean(), "Whether the job ends after its setup: no agent is started", true),
  deliver_only: optional(
    z.boolean(),
    "Whether the job only delivers the work of session_id, with its task: no agent is started",
    true,
  ),
};

/** What a submission changes for its own job alone. Null: not given. */
export const RunOptions = z
  .strictObject({
    ...values,
    files: TaskFiles.default([]).describe(
      "Files for the agent, at most 20, 25 MiB together; they do not get into the repository. Pictures (PNG, JPEG, GIF, WebP; 5 MB each) and PDFs are shown to it, the others are in .svc/in of its worktree",
    ),
  })
  .meta({ id: "RunOptions" });
export type RunOptions = z.output<typeof RunOptions>;

/** The options as the job shows them: of its files only the names. */
export const JobOptions = z.object({ ...values, files: z.array(z.string()) }).meta({ id: "JobOptions" });
export type JobOptions = z.output<typeof JobOptions>;

export const jobOptions = (options: RunOptions): JobOptions => ({
  ...options,
  files: options.files.map(({ name }) => name),
});

export const noOptions: JobOptions = jobOptions(RunOptions.parse({}));
