/** Variables with a credential of the real model. */
export const credentials = [
  "AGENT_CLI_OAUTH_TOKEN",
  "CLAUDE_CODE_OAUTH_TOKEN",
  "MODEL_API_AUTH_TOKEN",
  "ANTHROPIC_AUTH_TOKEN",
  "ANTHROPIC_API_KEY",
];

/** Those that are set. */
export const credentialsFound = (): string[] => credentials.filter((name) => process.env[name]);
