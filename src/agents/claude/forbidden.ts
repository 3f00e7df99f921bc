/**
 * Variables that never reach the agent, even if SERVICE_AGENT_ENV lists them: the service's own keys and stores, the git
 * and tracing credentials, and the model credentials, which have a rule of their own.
 */
export const isForbidden = (name: string): boolean => forbidden.some((pattern) => pattern.test(name));

const forbidden = [
  /^(SERVICE|BRIDGE|OAUTH|KV|TRACING|LANGFUSE|GIT_HOST|MODEL_API)_/i,
  /^(GH|GITHUB|GITLAB|GIT)_.*(TOKEN|KEY|SECRET|PASSWORD|PAT|ASKPASS|AUTH|CREDENTIAL)/i,
  // git takes configuration from the environment, headers with credentials among it.
  /^GIT_CONFIG/i,
  /^(GIT|SSH)_(ASKPASS|AUTH_SOCK|SSH_COMMAND)$/i,
  /^OTEL_EXPORTER_.*HEADERS$/i,
  /^(AGENT_CLI_OAUTH_TOKEN|CLAUDE_CODE_OAUTH_TOKEN|ANTHROPIC_(API_KEY|AUTH_TOKEN|BASE_URL))$/i,
];

/** The value of a variable if its name says that it is a secret. */
export const secretValue = (name: string, value: string | undefined): string | undefined =>
  /TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL/i.test(name) ? value : undefined;
