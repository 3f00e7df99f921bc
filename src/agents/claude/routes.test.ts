import { expect, test } from "vitest";
import { fakeLaunch, fakeSettings } from "../../../test/fake-agent/run.ts";
import { agentEnvironment } from "./claude.ts";
import { modelVariables, ownMcpInside, waysOut } from "./routes.ts";
import type { ClaudeSettings } from "./settings.ts";

const receiver = { endpoint: "http://127.0.0.1:8080/otlp", token: "canary-of-receiver" };

const ways = (settings: Partial<ClaudeSettings>, given: Partial<Parameters<typeof waysOut>[0]> = {}) =>
  waysOut({
    settings: { ...fakeSettings("/home"), ...settings },
    receiver: null,
    own: null,
    word: "the-word",
    ...given,
  });

/** As the door reads a path: where it leads, and the headers that it gets there. */
const lead = ({ routes }: ReturnType<typeof waysOut>, path: string) => {
  const route = routes.find(({ paths }) => paths.test(path));
  const [, group = path] = route?.paths.exec(path) ?? [];
  return route && `${route.target.href.replace(/\/$/, "")}${group} ${JSON.stringify(route.headers)}`;
};

const collector = { otelEnabled: true, otelEndpoint: "http://collector:4318/x" };

test.each([
  ["/v1/messages", {}, "https://api.anthropic.com/v1/messages {}"],
  [
    "/v1/messages",
    { agentOauthToken: "o", modelBaseUrl: "http://gw", modelApiKey: "k" },
    'https://api.anthropic.com/v1/messages {"authorization":"Bearer o"}',
  ],
  [
    "/v1/models/a",
    { modelBaseUrl: "http://gw.example/anthropic", modelApiKey: "k", modelAuthToken: "t" },
    'http://gw.example/anthropic/v1/models/a {"authorization":"Bearer t","x-api-key":"k"}',
  ],
  ["/api/hello", {}, undefined],
  ["/v2/v1/messages", {}, undefined],
  ["/otlp/v1/traces", {}, undefined],
  [
    "/otlp/v1/traces",
    { otelEnabled: true },
    'http://127.0.0.1:8080/otlp/v1/traces {"x-api-key":"canary-of-receiver"}',
  ],
  ["/otlp/v1/logs", { ...collector, otelProtocol: "http" }, "http://collector:4318/x/v1/logs {}"],
  ["/otlp/v1/profiles", { otelEnabled: true }, undefined],
  ["/otlp/v1/logs/x", { otelEnabled: true }, undefined],
  ["/otlp/v1/logs", { ...collector, otelProtocol: "grpc" }, undefined],
  ["/mcp", {}, undefined],
] as const)("%s with %j leads to %s", (path, settings, to) => {
  expect(lead(ways(settings, { receiver }), path)).toBe(to);
});

test.each([
  ["POST /v1/messages", true],
  ["POST /v1/messages/count_tokens", true],
  ["GET /v1/models", true],
  ["GET /v1/models/claude-a:1", true],
  ["GET /v1/messages", false],
  ["POST /v1/messages/", false],
  ["POST /v1/messages/batches", false],
  ["GET /v1/messages/batches/b/results", false],
  ["POST /v1/messages/count_tokens/x", false],
  ["DELETE /v1/models/a", false],
  ["GET /v1/models/a/b", false],
  ["GET /v1/files", false],
  ["DELETE /v1/files/f", false],
  ["POST /v1/organizations/api_keys/k", false],
])("%s goes to the model: %s", (request, isTaken) => {
  for (const settings of [{ agentOauthToken: "o" }, { modelApiKey: "k" }])
    expect(ways(settings).routes[0]?.takes?.test(request)).toBe(isTaken);
});

test("the service's own MCP gets what the client sends, and nothing beside it is reachable", () => {
  const found = ways({}, { own: "http://127.0.0.1:8080" });
  for (const path of ["/mcp", "/sse", "/messages"])
    expect(lead(found, path)).toBe(`http://127.0.0.1:8080${path} null`);
  for (const path of ["/jobs", "/mcp/x", "/messages/1"]) expect(lead(found, path)).toBeUndefined();
});

test("a collector that wants gRPC is an allowed host, wherever it is", () => {
  const { hosts } = ways({ otelEnabled: true, otelEndpoint: "http://127.0.0.1:4317", otelProtocol: "grpc" });
  expect(hosts).toEqual([{ name: "127.0.0.1", port: 4317, local: true }]);
  expect(ways({ ...collector, otelProtocol: "http" }).hosts).toEqual([]);
});

test.each([
  [{ agentOauthToken: "canary", modelApiKey: "canary" }, "CLAUDE_CODE_OAUTH_TOKEN"],
  [{ modelApiKey: "canary" }, "ANTHROPIC_API_KEY"],
  [{ modelApiKey: "canary", modelAuthToken: "canary" }, "ANTHROPIC_AUTH_TOKEN"],
  [{}, "ANTHROPIC_AUTH_TOKEN"],
])("of %j only a word without meaning stands inside, as %s, and no address of the host", (secret, name) => {
  const settings = { ...secret, otelEnabled: true, modelBaseUrl: "http://127.0.0.1:9" };
  const { inside } = ways(settings, { receiver });
  const model = modelVariables({ origin: "http://model.invalid", socket: "/run/door.sock" });
  const start = { id: "job", attempt: 1, launch: fakeLaunch("/config") };
  const { variables } = agentEnvironment({ ...inside, env: {}, start, root: false, inside: model });
  expect(JSON.stringify(variables)).not.toMatch(/canary|127\.0\.0\.1/);
  expect(Object.keys(variables).filter((key) => /TOKEN$|API_KEY$/.test(key))).toEqual([name]);
  expect(variables).toMatchObject({
    [name]: "the-word",
    ANTHROPIC_UNIX_SOCKET: "/run/door.sock",
    ANTHROPIC_BASE_URL: "http://model.invalid",
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://service.invalid/otlp",
  });
});

test("in an MCP configuration the service's own address becomes the one inside, with its key; others stay", () => {
  const other = { type: "http", url: "http://127.0.0.1:9999/mcp" };
  const headers = { Authorization: "Bearer profile" };
  const text = JSON.stringify({
    mcpServers: {
      a: { type: "http", url: "http://localhost:8080/mcp", headers },
      b: other,
      c: { command: "x" },
    },
  });
  expect(JSON.parse(ownMcpInside(text, ["http://127.0.0.1:8080"]) ?? "")).toEqual({
    mcpServers: {
      a: { type: "http", url: "http://service.invalid/mcp", headers },
      b: other,
      c: { command: "x" },
    },
  });
  expect(ownMcpInside(text, ["https://svc.example.com"])).toBeNull();
});
