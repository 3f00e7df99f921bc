/** Runs once before all tests. */
export default (): void => {
  // Tests must not see the machine's git configuration or credentials.
  for (const name of Object.keys(process.env)) {
    if (/^(GIT_|GH_|GITHUB_|ANTHROPIC_|CLAUDE|SERVICE_|MODEL_API_|AGENT_CLI_|OTEL_|KV_)/.test(name))
      delete process.env[name];
  }
};
