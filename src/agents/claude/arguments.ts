import type { AgentTurn } from "../agent.ts";

/**
 * Arguments of the CLI for one turn. The profile's come first: of an option given twice the last counts, and what keeps
 * a hostile repository's own settings out must not be switched off by accident.
 */
export const claudeArguments = ({
  cwd,
  launch,
  session,
}: Pick<AgentTurn, "cwd" | "launch" | "session">): string[] => [
  "-p",
  ...launch.args,
  ...(launch.settingsFile === null ? [] : ["--settings", launch.settingsFile]),
  ...(launch.mcpConfigFile === null ? [] : ["--mcp-config", launch.mcpConfigFile]),
  ...(launch.worktreeName === null ? [] : ["--worktree", launch.worktreeName]),
  // Resumed by the transcript's path: an id is only found from the directory that the session ran in.
  ...(session.resumeFrom === null ? ["--session-id", session.id] : ["--resume", session.resumeFrom]),
  // Brings the repository's CLAUDE.md back, which the setting sources leave out with the rest.
  "--add-dir",
  cwd,
  ...protocol,
  ...seclusion,
];

const protocol =
  "--input-format stream-json --output-format stream-json --verbose --include-partial-messages".split(" ");

/** Without these a cloned repository's settings and MCP servers run commands and redirect the model credentials. */
const seclusion = ["--setting-sources", "user", "--strict-mcp-config"];

/** The prompt as the CLI reads it from its standard input, where no length and no leading dash matters. */
export const promptLine = (prompt: string): string => {
  // A prompt that begins with a slash would be taken for one of the CLI's own commands and never reach the model.
  const text = prompt.startsWith("/") ? `\n${prompt}` : prompt;
  const message = { role: "user", content: [{ type: "text", text }] };
  return `${JSON.stringify({ type: "user", message, parent_tool_use_id: null })}\n`;
};
