import { expect, test } from "vitest";
import { rpc, startDoors } from "./mcp.fixture.ts";

const list = { jsonrpc: "2.0", id: 7, method: "tools/list" };
const here = "http://localhost:6274";

const preflight = (url: string, origin: string, headers = "x-api-key,mcp-param-city,user-agent") =>
  fetch(url, {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": headers,
    },
  });

test("a page of this machine may ask, also with a key, and read every answer", async () => {
  const { url } = await startDoors({ apiKeys: ["one key"] });
  for (const path of ["/mcp", "/sse", "/messages"]) {
    const { status, headers } = await preflight(url + path, here);
    expect([status, headers.get("access-control-allow-origin"), headers.get("vary")]).toEqual([
      204,
      here,
      "Origin",
    ]);
    const allowed = headers.get("access-control-allow-headers")?.toLowerCase().split(", ");
    expect(allowed).toEqual(["x-api-key", "mcp-param-city", "user-agent"]);
    expect(headers.get("access-control-allow-credentials")).toBe(null);
  }
  const answers = [
    await rpc(url, list, { origin: here, "x-api-key": "one key" }),
    await rpc(url, list, { origin: here }),
    await rpc(url, "nonsense", { origin: here, "x-api-key": "one key" }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 401, 400]);
  for (const { headers } of answers) {
    expect(headers.get("access-control-allow-origin")).toBe(here);
    expect(headers.get("access-control-expose-headers")).toContain("Mcp-Session-Id, WWW-Authenticate");
  }
});

test("a page of another origin is refused and cannot read the answer", async () => {
  const { url } = await startDoors();
  for (const answer of [
    await preflight(`${url}/mcp`, "https://evil.example"),
    await rpc(url, list, { origin: "https://evil.example" }),
    await rpc(url, list, { origin: "null" }),
  ]) {
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([403, null]);
  }
});

test("bound to another address with keys, any page may call: it needs a key, which no browser adds by itself", async () => {
  const { url } = await startDoors({ apiKeys: ["one key"], host: "0.0.0.0" });
  expect((await preflight(`${url}/mcp`, "https://app.example")).status).toBe(204);
  const without = await rpc(url, list, { origin: "https://app.example" });
  expect([without.status, without.headers.get("access-control-allow-origin")]).toEqual([
    401,
    "https://app.example",
  ]);
  const withKey = await rpc(url, list, { origin: "https://app.example", "x-api-key": "one key" });
  expect(withKey.status).toBe(200);
});

test("the paths of REST stay closed to pages of other origins", async () => {
  const { url } = await startDoors();
  const answer = await fetch(`${url}/jobs`, { headers: { origin: here } });
  expect(answer.headers.get("access-control-allow-origin")).toBe(null);
});
