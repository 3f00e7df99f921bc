import type { ClaudeBlock } from "./claude-block.ts";

/** Tools that change files or could: denied whatever else the profile says. */
const writingTools = ["Bash", "Edit", "Write", "NotebookEdit"];

const readingTools = ["Read", "Grep", "Glob"];

/** Modes in which what is not allowed is denied, and nothing is allowed by the mode itself. */
const strictModes = ["dontAsk", "plan", "default"];

/**
 * What `read_only: true` means for the CLI: only reading tools unless the profile names others, writing tools denied, and a mode
 * that denies what would ask (tools of MCP servers too, until `allowed_tools` names them). A profile that also asks for
 * the opposite is at fault rather than half read-only.
 */
export const asReadOnly = (
  block: ClaudeBlock,
  autoPr: boolean,
): { block: ClaudeBlock } | { fault: string } => {
  const mode = block.permission_mode ?? "dontAsk";
  const tools = block.tools ?? readingTools;
  const faults = [
    ...(autoPr ? ["auto_pr must be false"] : []),
    ...(strictModes.includes(mode)
      ? []
      : [`claude.permission_mode must be one of ${strictModes.join(", ")}`]),
    ...writersIn("tools", tools),
    ...writersIn("allowed_tools", block.allowed_tools ?? []),
  ];
  if (faults.length > 0) return { fault: `read_only is true, so ${faults.join(", and ")}` };
  const denied = [...new Set([...(block.disallowed_tools ?? []), ...writingTools])];
  return { block: { ...block, permission_mode: mode, tools, disallowed_tools: denied } };
};

/** Entries may be `Bash(git log *)`, several in one text, or `default`, which is every tool. */
const writersIn = (key: string, entries: readonly string[]): string[] => {
  const named = entries.flatMap((entry) => entry.replaceAll(/\([^)]*\)/g, "").split(/[,\s]+/));
  const writers = [...writingTools, "default"].filter((tool) => named.includes(tool));
  return writers.length === 0 ? [] : [`claude.${key} must not name ${writers.join(", ")}`];
};
