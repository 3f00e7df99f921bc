import type { ClaudeBlock } from "./claude-block.ts";

/** Linux takes at most 128 KiB in one argument. */
const maxArgumentBytes = 120_000;

/** Keys that the service acts on itself. */
const ownKeys = ["worktree", "timeout"];

/**
 * The block as CLI arguments, each value joined to its flag by `=`: a value that begins with `-` stays a value, and an
 * option that takes a list swallows nothing after it. A list is the flag repeated, a map is passed as JSON.
 */
export const toArguments = (block: ClaudeBlock): string[] =>
  Object.entries(block)
    .filter(([key]) => !ownKeys.includes(key))
    .flatMap(([key, value]) => option(`--${key.replaceAll("_", "-")}`, value));

/** Why these arguments could not be handed to a process; null: they can. */
export const argumentFault = (args: readonly string[]): string | null => {
  for (const argument of args) {
    const key = argument.slice(2).split("=", 1)[0]?.replaceAll("-", "_");
    if (argument.includes("\0")) return `claude.${key} holds a NUL character`;
    if (Buffer.byteLength(argument) > maxArgumentBytes)
      return `claude.${key} is longer than ${maxArgumentBytes} bytes; put long text in .claude/CLAUDE.md`;
  }
  return null;
};

export const bypassesPermissions = (mode: string): boolean =>
  mode === "bypassPermissions" || mode === "dangerously-skip-permissions";

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
