import fc from "fast-check";
import { expect, test } from "vitest";
import { variables } from "../../config/variables.ts";
import { fakeLaunch, fakeSettings } from "../../../test/fake-agent/run.ts";
import { agentEnvironment } from "./claude.ts";
import type { TelemetryReceiver } from "./routes.ts";
import type { ClaudeSettings } from "./settings.ts";

const build = (
  settings: Partial<ClaudeSettings>,
  { env = {}, root = false, launch = {}, receiver = null }: Surroundings = {},
) =>
  agentEnvironment({
    settings: { ...fakeSettings("/agent-home"), ...settings },
    env,
    start: { id: "the-job", attempt: 2, launch: { ...fakeLaunch("/config"), ...launch } },
    receiver,
    root,
  });

type Surroundings = {
  env?: NodeJS.ProcessEnv;
  root?: boolean;
  launch?: object;
  receiver?: TelemetryReceiver | null;
};

/** Every variable that holds a credential of ours, in its own name and in those of the programs that it is for. */
const credentials = [
  ...Object.values(variables)
    .filter((variable) => variable.secret)
    .flatMap(({ name, fallbacks }) => [name, ...fallbacks]),
  ..."KV_URL TRACING_PUBLIC_KEY TRACING_SECRET_KEY TRACING_BASIC_AUTH LANGFUSE_SECRET_KEY BRIDGE_API_KEYS".split(
    " ",
  ),
  ..."GH_TOKEN GITHUB_TOKEN GH_ENTERPRISE_TOKEN GITHUB_PAT GIT_ASKPASS SSH_ASKPASS SSH_AUTH_SOCK".split(" "),
  ..."GIT_CONFIG_COUNT GIT_CONFIG_VALUE_0 GIT_CONFIG_PARAMETERS OAUTH_CLIENT_SECRET ANTHROPIC_BASE_URL".split(
    " ",
  ),
  ..."OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TRACES_HEADERS SERVICE_TELEMETRY_DB".split(" "),
];

test("no credential of the service reaches the agent, listed in SERVICE_AGENT_ENV or not", () => {
  const name = fc.oneof(fc.constantFrom(...credentials), fc.stringMatching(/^[A-Z][A-Z0-9_]{0,20}$/));
  fc.assert(
    fc.property(fc.uniqueArray(name), fc.array(fc.nat()), (names, listed) => {
      const env = Object.fromEntries([...names, ...credentials].map((key) => [key, `canary-of-${key}`]));
      const agentEnv = [...listed.map((at) => credentials[at % credentials.length]!), ...names];
      const { variables: result, refused } = build({ agentEnv }, { env });
      for (const key of credentials) expect(Object.values(result)).not.toContain(`canary-of-${key}`);
      expect(agentEnv.filter((key) => credentials.includes(key)).every((key) => refused.includes(key))).toBe(
        true,
      );
    }),
  );
});

test("nothing is inherited but what is on the list or named by the operator", () => {
  const allowed = {
    PATH: "/bin",
    LANG: "C.UTF-8",
    LC_ALL: "C.UTF-8",
    TZ: "UTC",
    TMPDIR: "/t",
    https_proxy: "http://p",
    NO_PROXY: "localhost",
    NODE_EXTRA_CA_CERTS: "/ca.pem",
    NPM_CONFIG_REGISTRY: "http://r",
  };
  const env = {
    ...allowed,
    AWS_SECRET_ACCESS_KEY: "s",
    NODE_OPTIONS: "--inspect",
    HOME: "/other",
    EMPTY: "",
  };
  const { variables: result } = build({ agentEnv: ["NPM_CONFIG_REGISTRY", "EMPTY", "HOME"] }, { env });
  expect(result).toMatchObject({
    ...allowed,
    HOME: "/agent-home",
    CLAUDE_CONFIG_DIR: "/config/.config-of-job",
  });
  expect(Object.keys(result).filter((key) => key in env && !(key in allowed))).toEqual(["HOME"]);
  expect(result).toMatchObject({
    SERVICE_JOB_ID: "the-job",
    SERVICE_JOB_ATTEMPT: "2",
    SERVICE_PROFILE: "code",
  });
});

test("the long-lived token excludes the other model credentials; without it they are passed", () => {
  const others = { modelAuthToken: "auth-token", modelApiKey: "api-key", modelBaseUrl: "http://127.0.0.1:9" };
  const env = { ANTHROPIC_AUTH_TOKEN: "stray", ANTHROPIC_API_KEY: "stray", CLAUDE_CODE_OAUTH_TOKEN: "stray" };
  const agentEnv = Object.keys(env);
  const models = (settings: Partial<ClaudeSettings>) =>
    Object.entries(build({ agentEnv, ...settings }, { env }).variables).filter(([key]) =>
      /^ANTHROPIC|OAUTH/.test(key),
    );
  expect(models({ ...others, agentOauthToken: "oauth" })).toEqual([["CLAUDE_CODE_OAUTH_TOKEN", "oauth"]]);
  expect(models(others)).toEqual([
    ["ANTHROPIC_AUTH_TOKEN", "auth-token"],
    ["ANTHROPIC_API_KEY", "api-key"],
    ["ANTHROPIC_BASE_URL", "http://127.0.0.1:9"],
  ]);
  expect(models({})).toEqual([]);
});

test("root with a bypass mode, and only that, is marked as a sandbox", () => {
  const sandbox = (root: boolean, bypassPermissions: boolean) =>
    build({}, { root, launch: { bypassPermissions } }).variables["IS_SANDBOX"];
  expect([sandbox(true, true), sandbox(true, false), sandbox(false, true)]).toEqual([
    "1",
    undefined,
    undefined,
  ]);
});

test("shell commands give up before the job does", () => {
  const limits = (timeoutSeconds: number) => {
    const { variables: result } = build({}, { launch: { timeoutSeconds } });
    return [Number(result["BASH_DEFAULT_TIMEOUT_MS"]), Number(result["BASH_MAX_TIMEOUT_MS"])];
  };
  expect(limits(3600)).toEqual([120_000, 600_000]);
  expect(limits(100)).toEqual([90_000, 90_000]);
});

const receiver = { endpoint: "http://127.0.0.1:8200/otlp", token: "token-of-this-start" };
const telemetryOf = ({ variables: all }: ReturnType<typeof build>) =>
  Object.fromEntries(Object.entries(all).filter(([key]) => /OTEL|TELEMETRY/.test(key)));

test("telemetry is handed on in the agent's terms, prompts only when asked for", () => {
  const named = { otelEnabled: true, otelEndpoint: "http://127.0.0.1:1" };
  const on = telemetryOf(build({ ...named, otelProtocol: "http", podName: "pod, 1" }, { receiver }));
  expect(on).toEqual({
    CLAUDE_CODE_ENABLE_TELEMETRY: "1",
    OTEL_METRICS_EXPORTER: "otlp",
    OTEL_LOGS_EXPORTER: "otlp",
    OTEL_TRACES_EXPORTER: "otlp",
    CLAUDE_CODE_ENHANCED_TELEMETRY_BETA: "1",
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS: "500",
    OTEL_LOG_TOOL_DETAILS: "1",
    OTEL_RESOURCE_ATTRIBUTES: "service.job_id=the-job,profile=code,repo_key=0123456789ab,pod=pod%2C%201",
  });
  expect(telemetryOf(build(named))["OTEL_EXPORTER_OTLP_PROTOCOL"]).toBe("grpc");
  expect(build({ ...named, otelLogPrompts: true }).variables).toHaveProperty("OTEL_LOG_USER_PROMPTS", "1");
});

test("without a named endpoint the agent reports to the service's own receiver", () => {
  const own = build({ otelEnabled: true }, { receiver });
  expect(telemetryOf(own)).toMatchObject({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_EXPORTER_OTLP_HEADERS: "X-Api-Key=token-of-this-start",
    OTEL_TRACES_EXPORTER: "otlp",
    CLAUDE_CODE_ENHANCED_TELEMETRY_BETA: "1",
  });
  const other = build({ otelEnabled: true, otelProtocol: "grpc" }, { receiver });
  expect(telemetryOf(other)["OTEL_EXPORTER_OTLP_PROTOCOL"]).toBe("http/json");
});

test("there are no telemetry variables when it is off, or nobody would receive it", () => {
  expect(telemetryOf(build({}, { receiver }))).toEqual({});
  expect(telemetryOf(build({ otelEnabled: true }))).toEqual({});
});
