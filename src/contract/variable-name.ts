/** What the service itself sets for commands and agents, and what a shell has a meaning for. */
const ownNames =
  /^(HOME|PATH|TMPDIR|IFS|ENV|OPTIND|PPID|E?UID|SHELLOPTS|IS_SANDBOX|TRACEPARENT|DISABLE_AUTOUPDATER|NODE_USE_ENV_PROXY|(HTTPS?|ALL|NO)_PROXY|CLAUDE.*|(ANTHROPIC|SERVICE|OTEL|MCP|BASH|SVC)_.*)$/i;

/** Variables that the service adds. */
const besideNames =
  /^(PORT|PORT_COUNT|CI|USER|LOGNAME|SHELL|PWD|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|GIT_SSL_CAINFO|CARGO_HTTP_CAINFO|PIP_CERT|NPM_CONFIG_CAFILE|(AGENT_CLI|MODEL_API)_.*)$/i;

/** Changes which code a program loads when it starts. */
const loaderNames =
  /^(NODE_(OPTIONS|PATH|COMPILE_CACHE|REPL_.*)|BUN_.*|LD_.*|DYLD_.*|GCONV_PATH|OPENSSL_(CONF|ENGINES|MODULES)|GIT_(EXEC_PATH|SSH|SSH_COMMAND)|(_JAVA|JAVA_TOOL|JDK_JAVA)_OPTIONS|(PERL5|PYTHON|RUBY)(LIB|DB|PATH|OPT|HOME|STARTUP))$/i;

/** Options of Node that load no code. */
const harmlessOptions = /^\s*((--max-(old|semi)-space-size[= ]\d+|--enable-source-maps)(\s+|$))+$/;

export const isVariableName = (name: string): boolean => /^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(name);

/** Whether a repository or a profile may set a variable of this name. */
export const isOwnName = (name: string): boolean => ownNames.test(name);

/** Whether a secret may have this name. */
export const isSecretName = (name: string): boolean =>
  ![ownNames, besideNames, loaderNames].some((names) => names.test(name));

/** Whether a repository's variable may reach the agent's CLI, whose figures and refusals are the service's. */
export const mayReachAgent = (name: string, value: string): boolean =>
  !loaderNames.test(name) || (name === "NODE_OPTIONS" && harmlessOptions.test(value));
