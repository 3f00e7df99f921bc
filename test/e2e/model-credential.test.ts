import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { modelProblem } from "../../src/config/model-credential.ts";
import { asks } from "../asks.ts";
import { svc } from "../cli/run-svc.ts";
import { startService } from "../service.ts";

const post = async (url: string, body: object) => {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: answer.status, retry: answer.headers.get("retry-after"), text: await answer.text() };
};

test("without a model credential nothing that needs an agent is accepted, until the agent CLI is logged in", async () => {
  const service = await startService({
    env: { AGENT_MODE: "true", SERVICE_ALLOW_NO_MODEL_CREDENTIAL: undefined },
  });
  expect(service.output.stderr).toMatch(
    /"level":"warn".*No model credential is set.*ANTHROPIC_API_KEY.*AGENT_CLI_OAUTH_TOKEN/,
  );
  const chat = { model: "default", messages: [{ role: "user", content: "hello" }] };
  const words = /ANTHROPIC_API_KEY.*AGENT_CLI_OAUTH_TOKEN.*docs\/operate\/credentials\.md/;
  for (const [path, body] of [
    ["/jobs", { task: "hello" }],
    ["/completions", { uuid: "one", message: "hello" }],
    ["/v1/chat/completions", chat],
    ["/v1/chat/completions", { ...chat, stream: true }],
  ] as const) {
    const { status, retry, text } = await post(service.url + path, body);
    expect({ path, status, retry }).toEqual({ path, status: 503, retry: "60" });
    expect(text).toMatch(/"code":"no_model_credential"/);
    expect(text).toMatch(words);
  }
  const run = await svc(["run", "hello", "--no-repo"], { env: { SERVICE_PORT: new URL(service.url).port } });
  expect(run.stderr).toMatch(words);
  expect(run.code).not.toBe(0);
  const state = await post(`${service.url}/v1/chat/completions`, {
    ...chat,
    messages: [{ role: "user", content: "/stream-status" }],
  });
  expect(state.status).toBe(200);

  await mkdir(join(service.home, ".claude"));
  const login = { claudeAiOauth: { accessToken: "not-a-token" } };
  await writeFile(join(service.home, ".claude", ".credentials.json"), JSON.stringify(login));
  expect(await asks(service).run({ task: "scenario: noop" })).toMatchObject({ status: "succeeded" });
});

const none = {
  agentOauthToken: null,
  modelAuthToken: null,
  modelApiKey: null,
  agentEnv: [],
  agentHome: "/nonexistent",
  allowNoModelCredential: false,
};

test.each([
  [{ agentOauthToken: "long-lived" }, null],
  [{ modelAuthToken: "static" }, null],
  [{ modelApiKey: "native" }, null],
  [{ agentEnv: ["CLAUDE_CODE_USE_BEDROCK"] }, null],
  [{ agentEnv: ["OTHER"] }, expect.stringContaining("No model credential is set")],
])("what is missing with %j is %j", (settings, problem) => {
  expect(modelProblem({ ...none, ...settings })).toEqual(problem);
});
