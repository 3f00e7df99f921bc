import { z } from "zod";
import { permissionModes } from "../config/permission-modes.ts";

const text = z.string("must be text").min(1, "must not be empty");
const word = text.regex(/^\S+$/, "must not hold spaces");
const names = z
  .union([text.transform((value) => [value]), z.array(text)], "must be a list of names")
  .nullish();

const other = z.union(
  [
    z.string(),
    z.number(),
    z.boolean(),
    z.null(),
    z.undefined(),
    z.array(z.union([z.string(), z.number()])),
    z.record(z.string(), z.json()),
  ],
  "must be text, a number, true or false, a list of texts, or a map (which is passed as JSON)",
);

const known = {
  model: word.nullish(),
  max_turns: z.int("must be a whole number").min(1, "must be at least 1").nullish(),
  permission_mode: z.enum(permissionModes, `must be one of ${permissionModes.join(", ")}`).nullish(),
  worktree: z.boolean("must be true or false").nullish(),
  timeout: z
    .int("must be a whole number of seconds")
    .min(1, "must be at least 1 second")
    .max(604_800, "must be at most 604800 seconds")
    .nullish(),
  effort: z
    .enum(["low", "medium", "high", "xhigh", "max"], "must be low, medium, high, xhigh or max")
    .nullish(),
  max_budget_usd: z.number("must be a number").positive("must be more than 0").nullish(),
  fallback_model: word.nullish(),
  tools: names,
  allowed_tools: names,
  disallowed_tools: names,
  append_system_prompt: text.nullish(),
  system_prompt: text.nullish(),
};

/** Keys that would break how the service runs the CLI, by reason. */
const refused = {
  "the service sets it: it speaks to the CLI over its own streams":
    "print verbose output_format input_format include_partial_messages replay_user_messages prompt_suggestions permission_prompt_tool sdk_url",
  "the service chooses sessions; give session_id with the task":
    "session_id resume continue fork_session from_pr resume_session_at rewind_files teleport",
  "a job's session must be kept so that it can be resumed": "no_session_persistence",
  "put them in .claude/settings.json beside profile.yml": "settings setting_sources",
  "put the servers in .mcp.json beside profile.yml": "mcp_config strict_mcp_config",
  "a job works in its own worktree only": "add_dir tmux cwd",
  "use permission_mode": "dangerously_skip_permissions allow_dangerously_skip_permissions",
  "it would turn the service's own hooks off": "bare safe_mode init_only maintenance",
  "a job runs in the foreground, without a terminal": "bg background ide chrome remote_control cloud",
  "it would write beside the job's log or end the CLI at once":
    "debug debug_file debug_to_stderr help version",
};

const reasons = new Map(
  Object.entries(refused).flatMap(([reason, keys]) => keys.split(" ").map((key) => [key, reason])),
);

/** Keys become flags: only keys with a unique spelling as a flag. */
const keyForm = /^[a-z][a-z0-9]+(_[a-z0-9]+)*$/;

export const ClaudeBlock = z
  .record(z.string(), z.unknown(), "must hold `key: value` lines")
  .superRefine((block, context) => {
    for (const key of Object.keys(block)) {
      const reason = reasons.get(key);
      if (reason !== undefined)
        context.addIssue({ code: "custom", path: [key], message: `cannot be set: ${reason}` });
      else if (!keyForm.test(key))
        context.addIssue({ code: "custom", path: [key], message: "must be lower-case words joined by _" });
    }
  })
  .pipe(z.object(known).catchall(other));

export type ClaudeBlock = z.infer<typeof ClaudeBlock>;

/** Linux accepts at most 128 KiB in one argument. */
const maxArgumentBytes = 120_000;

/** Keys that the service itself uses. */
const ownKeys = ["worktree", "timeout"];

/**
 * The block as CLI arguments, each value joined to its flag by `=`: a value that begins with `-` stays a value, and an
 * option with a list swallows nothing after it. A list repeats the flag, a map becomes JSON.
 */
export const toArguments = (block: ClaudeBlock): string[] =>
  Object.entries(block)
    .filter(([key]) => !ownKeys.includes(key))
    .flatMap(([key, value]) => option(`--${key.replaceAll("_", "-")}`, value));

/** Why a process cannot get these arguments; null: it can. */
export const argumentFault = (args: readonly string[]): string | null => {
  for (const argument of args) {
    const key = argument.slice(2).split("=", 1)[0]?.replaceAll("-", "_");
    if (argument.includes("\0")) return `claude.${key} holds a NUL character`;
    if (Buffer.byteLength(argument) > maxArgumentBytes)
      return `claude.${key} is longer than ${maxArgumentBytes} bytes; put long text in .claude/CLAUDE.md`;
  }
  return null;
};

const option = (flag: string, value: unknown): string[] => {
  if (value === null || value === undefined || value === false) return [];
  if (value === true) return [flag];
  if (flag === "--permission-mode" && value === "dangerously-skip-permissions") return [`--${value}`];
  if (Array.isArray(value)) {
    // No tools at all is the opposite of no limit on tools.
    if (flag === "--tools" && value.length === 0) return ["--tools="];
    return value.map((item) => `${flag}=${item}`);
  }
  return [`${flag}=${typeof value === "object" ? JSON.stringify(value) : String(value as string | number)}`];
};
