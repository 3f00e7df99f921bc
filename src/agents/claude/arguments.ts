import type { AgentStart, TurnPart } from "../agent.ts";

/**
 * Arguments of the CLI. The profile's come first: of an option given twice the last counts, and what keeps
 * a hostile repository's own settings out must not be switched off by accident.
 */
export const claudeArguments = ({
  cwd,
  launch,
  session,
}: Pick<AgentStart, "cwd" | "launch" | "session">): string[] => [
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

/** What the user says as the CLI reads it from its standard input, where no length and no leading dash matters. */
export const userLine = (parts: readonly TurnPart[]): string => {
  const message = { role: "user", content: parts.map(contentBlock) };
  return `${JSON.stringify({ type: "user", message, parent_tool_use_id: null })}\n`;
};

const contentBlock = (part: TurnPart): object => {
  if (part.type === "image") {
    const { mediaType: media_type, base64: data } = part;
    return { type: "image", source: { type: "base64", media_type, data } };
  }
  // What begins with a slash would be taken for one of the CLI's own commands and never reach the model.
  return { type: "text", text: part.text.startsWith("/") ? `\n${part.text}` : part.text };
};
