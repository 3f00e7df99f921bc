/** What the service itself sets for commands and agents, and what a shell has a meaning for. */
const ownNames =
  /^(HOME|PATH|TMPDIR|IFS|ENV|OPTIND|PPID|E?UID|SHELLOPTS|IS_SANDBOX|TRACEPARENT|DISABLE_AUTOUPDATER|NODE_USE_ENV_PROXY|(HTTPS?|ALL|NO)_PROXY|CLAUDE.*|(ANTHROPIC|SERVICE|OTEL|MCP|BASH|SVC)_.*)$/i;

/** What decides how programs are started, and what the service gives besides: no secret has such a name. */
const loaderNames =
  /^(PORT|PORT_COUNT|CI|USER|LOGNAME|SHELL|PWD|NODE_OPTIONS|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|LD_.*|DYLD_.*|(PERL5|PYTHON|RUBY)(LIB|PATH|OPT|HOME|STARTUP)|(AGENT_CLI|MODEL_API)_.*)$/i;

export const isVariableName = (name: string): boolean => /^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(name);

/** Whether a repository or a profile may set a variable of this name. */
export const isOwnName = (name: string): boolean => ownNames.test(name);

/** Whether a secret may have this name. */
export const isSecretName = (name: string): boolean => !ownNames.test(name) && !loaderNames.test(name);
