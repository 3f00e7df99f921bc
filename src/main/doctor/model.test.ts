import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test, vi } from "vitest";
import { afterFile } from "../../../test/cleanup.ts";
import { message, text, toolUse } from "../../../test/fake-model/answer.ts";
import { startFakeModel } from "../../../test/fake-model/fake-model.ts";
import { diagnosisWith, said } from "./doctor.fixture.ts";
import { askModel, checkModel, judge } from "./model.ts";

const serve = async (listener: RequestListener): Promise<{ url: string; requests: IncomingMessage[] }> => {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    listener(request, response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  afterFile(() => server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
};

const html = { "content-type": "text/html; charset=utf-8" };

test.each([
  [
    200,
    {},
    /^ok: http:\/\/127\.0\.0\.1:\d+\/base\/v1\/models answers 200 in \d+ ms to MODEL_API_AUTH_TOKEN$/,
  ],
  [404, {}, /^ok: .* answers 404 .*, which does not tell whether that is good$/],
  [401, {}, /^Error: .* answers 401 in \d+ ms to MODEL_API_AUTH_TOKEN: it is refused, so set another one$/],
  [403, html, /^Error: .* answers 403 /],
  [407, {}, /^Error: .* answers 407 .* the proxy$/],
  [500, {}, /^Error: .* answers 500 .*: try again/],
  [529, {}, /^Error: .* answers 529 /],
  [429, {}, /^Warning: .* answers 429 .*: a limit is reached$/],
  [200, html, /^Warning: .* answers 200 .*, a page in HTML/],
  [307, { location: "/elsewhere" }, /^Warning: .* answers 307 .*: a redirect/],
])("what a model's address that answers %d %j means", async (status, headers, expected) => {
  const { url, requests } = await serve((_, response) => response.writeHead(status, headers).end("body"));
  const address = `${url.replace("://", "://user:canary-password@")}/base/?canary=1`;
  const request = await diagnosisWith({ MODEL_API_BASE_URL: address, MODEL_API_AUTH_TOKEN: "canary-token" });
  const answer = await said(checkModel(request));
  expect(answer).toMatch(expected);
  expect(answer).not.toContain("canary");
  expect(
    requests.map(({ method, url: path, headers: { authorization } }) => [method, path, authorization]),
  ).toEqual([["GET", "/base/v1/models?limit=1", "Bearer canary-token"]]);
});

test("an address that refuses connections, or says nothing in time, or never ends its answer", async () => {
  const silent = await serve(() => undefined);
  const endless = await serve((_, response) => void response.writeHead(200).write("x"));
  const ask = async (url: string, limitMs?: number) => {
    const request = await diagnosisWith({ MODEL_API_BASE_URL: url, ANTHROPIC_API_KEY: "canary-key" });
    return await said(checkModel(request, limitMs));
  };
  const refused = /^Error: .*:9 does not answer: .*ECONNREFUSED.*MODEL_API_BASE_URL/;
  expect(await ask("http://127.0.0.1:9")).toMatch(refused);
  expect(await ask("http://localhost:9")).toMatch(refused);
  expect(await ask(silent.url, 200)).toMatch(/^Error: .* does not answer: nothing comes within 0\.2 s/);
  expect(await ask(endless.url)).toMatch(/^ok: .* answers 200 /);
  expect(endless.requests[0]?.headers["x-api-key"]).toBe("canary-key");
});

test.each([
  [400, "ok", ""],
  [200, "ok", ", which does not tell whether that is good"],
  [401, "warning", ": log the agent CLI in again if jobs fail"],
])(
  "the login of the agent CLI, or no credential, to which the address answers %d: %s",
  async (status, verdict, words) => {
    const { settings } = await diagnosisWith({});
    expect(judge(settings, { status, isHtml: false, isToken: true })).toEqual([verdict, words]);
  },
);

test("a subscription's token goes by the service's proxy to the provider, whatever MODEL_API_BASE_URL says", async () => {
  const { url, requests } = await serve(() => undefined);
  const proxy = createServer().on("connect", (request: IncomingMessage, socket) => {
    requests.push(request);
    socket.end("HTTP/1.1 503 Unavailable\r\n\r\n");
  });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  afterFile(() => void proxy.close());
  vi.stubEnv("HTTPS_PROXY", `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  const request = await diagnosisWith({ MODEL_API_BASE_URL: url, AGENT_CLI_OAUTH_TOKEN: "canary-token" });
  const answer = await said(checkModel(request)).finally(() => vi.unstubAllEnvs());
  expect(answer).toMatch(/^Error: https:\/\/api\.anthropic\.com.* 503 /);
  expect(requests.map(({ method, url: path }) => [method, path])).toEqual([
    ["CONNECT", "api.anthropic.com:443"],
  ]);
});

test("an address is not asked offline, nor when agents use a cloud's; without a credential it may answer 401", async () => {
  const { url, requests } = await serve((_, response) => response.writeHead(401).end());
  const free = { MODEL_API_BASE_URL: url, SERVICE_ALLOW_NO_MODEL_CREDENTIAL: "true" };
  const check = async (variables: Record<string, string>, offline: boolean) =>
    await said(checkModel(await diagnosisWith(variables, { offline })));
  expect(await check({ ...free, ANTHROPIC_API_KEY: "canary-key" }, true)).toMatch(
    /^ok: ANTHROPIC_API_KEY is set/,
  );
  expect(await check(free, true)).toMatch(/^Warning: No model credential is known/);
  expect(await check({ ...free, SERVICE_AGENT_ENV: "CLAUDE_CODE_USE_VERTEX" }, false)).toMatch(
    /^ok: CLAUDE_CODE_USE_VERTEX is set/,
  );
  expect(requests).toEqual([]);
  expect(await check(free, false)).toMatch(/^Warning: .* answers 401 in \d+ ms to no credential/);
  expect(await check({}, false)).toMatch(/^Error: No model credential is set/);
});

test("--ask-model lets the model answer one turn, and says which, in what time, for how much and what", async () => {
  await using model = await startFakeModel({ token: "canary-key" });
  using _script = model.script(({ results, tools }) => {
    if (!tools.includes("Bash")) return null;
    if (results.length > 0)
      return message([
        text("It prints works."),
        toolUse("StructuredOutput", { outcome: "changed", summary: "Done" }),
      ]);
    return message([toolUse("Bash", { command: "echo works >doctor.txt" })]);
  });
  const variables = {
    MODEL_API_BASE_URL: model.url,
    ANTHROPIC_API_KEY: "canary-key",
    SERVICE_AGENT_SANDBOX: "bwrap",
  };
  expect(await said(askModel(await diagnosisWith(variables, { askModel: "claude-opus-4-6" })))).toMatch(
    /^ok: claude-opus-4-6 answers in \d+\.\d s for \d\.\d{4} USD: It prints works\.$/,
  );
});
