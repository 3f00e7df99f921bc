import { expect, test } from "vitest";
import { createTestApp } from "./app.fixture.ts";

const post = (body: object): RequestInit => ({
  method: "POST",
  body: JSON.stringify(body),
  headers: { "content-type": "application/json" },
});

test("an operation defines the status of its answer", async () => {
  const { app } = createTestApp();
  const ask = async (body: object) => {
    const answer = await app.request("/completions", post({ uuid: "u-1", message: "do it", ...body }));
    return { code: answer.status, body: (await answer.json()) as object };
  };
  expect(await ask({})).toMatchObject({ code: 200, body: { success: true, uuid: "u-1" } });
  expect(await ask({ message: "fail" })).toMatchObject({
    code: 500,
    body: { success: false, code: "agent_failed" },
  });
  const queued = await app.request("/completions", post({ uuid: "u-1", message: "do it", wait: false }));
  expect(queued.status).toBe(202);
  expect(await queued.json()).toMatchObject({ status: "queued", poll_url: "/completions/u-1" });
});

test("without agent mode its operations answer that it is off, and their paths have no methods", async () => {
  const { app } = createTestApp({ agentMode: false });
  for (const [method, path] of [
    ["POST", "/completions"],
    ["GET", "/completions/u-1"],
    ["DELETE", "/completions/u-1"],
  ] as const) {
    const answer = await app.request(path, { method });
    expect([answer.status, await answer.json()]).toEqual([
      404,
      {
        success: false,
        code: "not_found",
        error: expect.stringMatching(
          /^(POST|GET|DELETE) \/completions.* start the service with AGENT_MODE=true$/,
        ),
      },
    ]);
  }
  const other = await app.request("/completions", { method: "PUT" });
  expect([other.status, other.headers.get("allow")]).toEqual([404, null]);
  expect((await app.request("/jobs")).status).toBe(200);
});
