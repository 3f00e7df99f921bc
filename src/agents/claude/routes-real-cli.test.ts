import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { afterFile } from "../../../test/cleanup.ts";
import { runFake } from "../../../test/fake-agent/run.ts";
import { newestCli, oldestCli } from "../../../test/agent-clis.ts";
import { startFakeModel } from "../../../test/fake-model/fake-model.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { createSandbox } from "../../sandbox/sandbox.ts";

type Message = { id?: number; method?: string; params?: { protocolVersion?: string } };
type Asked = { path: string; headers: IncomingHttpHeaders; body: string };

/** Takes telemetry, and is an MCP server without tools. */
const startService = async () => {
  const asked: Asked[] = [];
  const server = createServer((request, answer) => {
    let body = "";
    request.on("data", (piece: Buffer) => (body += piece.toString()));
    request.on("end", () => {
      asked.push({ path: request.url ?? "", headers: request.headers, body });
      const { id, method, params } = (body.startsWith("{") ? JSON.parse(body) : {}) as Message;
      if (request.url !== "/mcp") return answer.end("{}");
      if (id === undefined) return answer.writeHead(request.method === "POST" ? 202 : 405).end();
      const hello = {
        protocolVersion: params?.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: "own", version: "1" },
      };
      const result = method === "initialize" ? hello : { tools: [] };
      return answer
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(async () => void server.close());
  return { asked, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
};

test.each([
  ["bwrap", newestCli],
  ["landlock", oldestCli],
] as const)(
  "%s: an agent reports telemetry and reaches the service's own MCP, while the receiver's token stays outside",
  async (mode, cli) => {
    const model = await startFakeModel({ token: "canary-of-model" });
    afterFile(() => model.close());
    const { asked, origin } = await startService();
    const directory = await temporaryDirectory();
    const mcpConfigFile = `${directory}/mcp.json`;
    const headers = { Authorization: "Bearer profile" };
    await writeFile(
      mcpConfigFile,
      JSON.stringify({ mcpServers: { own: { type: "http", url: `${origin}/mcp`, headers } } }),
    );
    const { outcome, events } = await runFake('scenario: bash {"command": "env"}', {
      directory,
      sandbox: (await createSandbox(mode)).sandbox,
      settings: {
        agentCliBinary: cli,
        modelBaseUrl: model.url,
        modelAuthToken: "canary-of-model",
        otelEnabled: true,
      },
      receiver: { endpoint: `${origin}/otlp`, token: "canary-of-receiver" },
      origins: () => [origin],
      launch: {
        mcpConfigFile,
        bypassPermissions: true,
        args: ["--model", "sonnet", "--dangerously-skip-permissions"],
      },
    });
    expect(outcome).toMatchObject({ ok: true });
    expect(JSON.stringify(events)).not.toContain("canary-of");
    const at = (path: string) => asked.filter((each) => each.path === path);
    for (const signal of ["traces", "metrics", "logs"]) {
      expect(at(`/otlp/v1/${signal}`)).not.toEqual([]);
      for (const each of at(`/otlp/v1/${signal}`))
        expect(each.headers["x-api-key"]).toBe("canary-of-receiver");
    }
    const hello = at("/mcp").find(({ body }) => body.includes('"initialize"'));
    expect(hello?.headers).toMatchObject({ authorization: "Bearer profile", host: new URL(origin).host });
  },
);
