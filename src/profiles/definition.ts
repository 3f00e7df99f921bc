import { z } from "zod";
import { suggestion } from "../lib/nearest.ts";
import { ClaudeBlock } from "./claude-block.ts";
import { parseYamlMap } from "./yaml-map.ts";

export const nameForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;

const name = z
  .string("must be text")
  .regex(nameForm, "must be letters, digits, `.`, `_` and `-`, and begin with a letter or digit")
  .refine((value) => value !== "auto", "cannot be auto, which asks for routing");
const flag = z.boolean("must be true or false").nullish();
const patterns = z.array(z.string("must be text").min(1, "must not be empty"), "must be a list").nullish();
const taskPattern = z.string("must be text").superRefine((source, context) => {
  const fault = patternFault(source);
  if (fault !== null) context.addIssue(fault);
});

/** `profile.yml`. Null stands for "not set", also over a value that the parent sets. */
const Definition = z.strictObject({
  name: name.nullish(),
  description: z.string("must be text").max(2000, "must have at most 2000 characters").nullish(),
  extends: name.nullish(),
  auto_pr: flag,
  retry_lost: flag,
  read_only: flag,
  match: z.strictObject({ task: z.array(taskPattern, "must be a list").nullish(), repo: patterns }).nullish(),
  claude: ClaudeBlock.nullish(),
});

export type Definition = z.infer<typeof Definition>;

/** The file's content, or every fault of it in one sentence. */
export const parseDefinition = (source: string): { definition: Definition } | { fault: string } => {
  const content = parseYamlMap(source);
  if ("fault" in content) return content;
  const result = Definition.safeParse(content.value);
  if (result.success) return { definition: result.data };
  return { fault: result.error.issues.flatMap(describeIssue).join("; ") };
};

const patternFault = (source: string): string | null => {
  try {
    RegExp(source, "i");
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
};

const describeIssue = (issue: z.core.$ZodIssue): string[] => {
  const at = issue.path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
  const path = at.slice(1);
  if (issue.code !== "unrecognized_keys") return [path === "" ? issue.message : `${path} ${issue.message}`];
  const candidates = path === "match" ? ["task", "repo"] : Object.keys(Definition.shape);
  return issue.keys.map(
    (key) => `unknown key ${path === "" ? key : `${path}.${key}`}${suggestion(key, candidates)}`,
  );
};
