/** Variables with a credential of the real model. */
export const credentials = [
  "AGENT_CLI_OAUTH_TOKEN",
  "CLAUDE_CODE_OAUTH_TOKEN",
  "MODEL_API_AUTH_TOKEN",
  "ANTHROPIC_AUTH_TOKEN",
  "ANTHROPIC_API_KEY",
];

/** What the stand-ins export as a credential for their own model. */
export const scripted = "scripted";

/** Those that are set, but for what earlier stand-ins of this shell have left. */
export const credentialsFound = (): string[] =>
  credentials.filter((name) => process.env[name] && process.env[name] !== scripted);
