import { z } from "zod";
import { Checks } from "./checks.ts";
import { ClaudeBlock } from "./claude-block.ts";
import { Globs } from "./match.ts";
import { SandboxBlock } from "./sandbox-policy.ts";
import { Setups } from "./setup.ts";
import { parseYaml } from "./yaml-map.ts";

export const nameForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;

const name = z
  .string("must be text")
  .regex(nameForm, "must be letters, digits, `.`, `_` and `-`, and begin with a letter or digit")
  .refine((value) => value !== "auto", "cannot be auto, which asks for routing");
const OnLimit = z.enum(["wait", "api_key", "fail"], "must be wait, api_key or fail");
export type OnLimit = z.infer<typeof OnLimit>;
const flag = z.boolean("must be true or false").nullish();
/** Matched against the first 2,000 characters of a task: see `route.ts`. */
const taskPattern = z.string("must be text").superRefine((source, context) => {
  try {
    RegExp(source, "i");
  } catch (error) {
    context.addIssue(error instanceof Error ? error.message : String(error));
  }
});

/** What a template may have in braces. */
const placeholders = ["task", "job_id", "summary", "branch", "profile"] as const;

const template = z
  .string("must be text")
  .refine((text) => text.trim() !== "", "must not be empty")
  .max(10_000, "must have at most 10000 characters")
  .superRefine((text, context) => {
    for (const [whole, word = ""] of text.matchAll(/\{([a-z_]+)\}/g))
      if (!placeholders.some((each) => each === word))
        context.addIssue(
          `has ${whole}, which is none of ${placeholders.map((each) => `{${each}}`).join(", ")}`,
        );
  })
  .nullish();

const Deliver = z.strictObject({ commit_message: template, title: template, body: template });
export type Deliver = z.infer<typeof Deliver>;

/** `profile.yml`. Null means "not set", also over a value from the parent. */
const Definition = z.strictObject({
  name: name.nullish(),
  description: z.string("must be text").max(2000, "must have at most 2000 characters").nullish(),
  extends: name.nullish(),
  auto_pr: flag,
  retry_lost: flag,
  read_only: flag,
  questions: z.enum(["ask", "never", "fail"], "must be ask, never or fail").nullish(),
  plan: flag,
  submodules: z.union([z.boolean(), z.literal("recursive")], "must be true, false or recursive").nullish(),
  lfs: flag,
  on_limit: OnLimit.nullish(),
  budget_day_usd: z.number("must be a number").nonnegative("must not be negative").nullish(),
  match: z
    .strictObject({ task: z.array(taskPattern, "must be a list").nullish(), repo: Globs.nullish() })
    .nullish(),
  claude: ClaudeBlock.nullish(),
  sandbox: SandboxBlock.nullish(),
  deliver: Deliver.nullish(),
  setup: Setups.nullish(),
  checks: Checks.nullish(),
  check_rounds: z
    .int("must be a whole number")
    .min(0, "must not be negative")
    .max(20, "must be at most 20")
    .nullish(),
  checks_from: z.literal("repository", "must be repository").nullish(),
  on_red: z.enum(["none", "push", "draft"], "must be none, push or draft").nullish(),
  allow_host: flag,
});

export type Definition = z.infer<typeof Definition>;

/** Parses a definition. @throws FileFault with all its faults in one sentence */
export const parseDefinition = (path: string, source: string): Definition =>
  parseYaml({ path, source, schema: Definition }, (at) => {
    if (at === "match") return ["task", "repo"];
    return Object.keys(at === "deliver" ? Deliver.shape : Definition.shape);
  });
