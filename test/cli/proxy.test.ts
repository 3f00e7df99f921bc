import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { svc } from "./run-svc.ts";
import { json, stubService } from "./stub-service.ts";

const asked: string[] = [];
const proxy = createServer((request, answer) => {
  asked.push(request.url ?? "");
  answer.writeHead(503).end("the proxy says no");
}).listen(0, "127.0.0.1");
proxy.on("connect", (request, socket) => {
  asked.push(request.url ?? "");
  socket.end("HTTP/1.1 503 No\r\n\r\n");
});
await once(proxy, "listening");
afterFile(async () => void proxy.close());
const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
const jobs = { success: true, count: 0, jobs: [], next_cursor: null };

test.each<[shell: string, env: Record<string, string>, host: string, proxied: boolean]>([
  ["NODE_USE_ENV_PROXY", { NODE_USE_ENV_PROXY: "1" }, "127.0.0.1", false],
  ["another NO_PROXY", { NODE_USE_ENV_PROXY: "1", NO_PROXY: ".corp.example" }, "127.0.0.1", false],
  [
    "an empty one in small letters",
    { NODE_USE_ENV_PROXY: "1", no_proxy: "", NO_PROXY: "x" },
    "127.0.0.1",
    false,
  ],
  ["an option of Node", { NODE_OPTIONS: "--use-env-proxy" }, "127.0.0.1", false],
  ["another address of loopback", { NODE_USE_ENV_PROXY: "1" }, "127.0.0.7", false],
  ["a name", { NODE_USE_ENV_PROXY: "1" }, "localhost", false],
  [
    "a host of a domain that NO_PROXY names",
    { NODE_USE_ENV_PROXY: "1", NO_PROXY: "corp.invalid" },
    "svc.corp.invalid",
    false,
  ],
  [
    "a host that it does not name",
    { NODE_USE_ENV_PROXY: "1", NO_PROXY: "corp.invalid" },
    "svc.other.invalid",
    true,
  ],
])(
  "in a shell with a proxy and %s, svc asks the service at %3$s: by the proxy: %4$s",
  async (_shell, env, host, proxied) => {
    asked.length = 0;
    const stub = await stubService({ "GET /jobs": json(200, jobs) });
    const { code, stderr } = await svc(["jobs"], {
      ownProcess: true,
      env: {
        HTTP_PROXY: url,
        http_proxy: url,
        SERVICE_HOST: host,
        SERVICE_PORT: String(stub.port),
        SERVICE_API_KEY: "key-of-the-service-0123456789",
        ...env,
      },
    });
    // The stub listens on 127.0.0.1 alone.
    const isReached = ["127.0.0.1", "localhost"].includes(host);
    const seen = { isProxied: asked.length > 0, isReached: code === 0 };
    expect({ ...seen, stderr }).toMatchObject({ isProxied: proxied, isReached });
  },
);
