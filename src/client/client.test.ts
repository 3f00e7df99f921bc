import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, expectTypeOf, test } from "vitest";
import type { Job } from "../contract/job.ts";
import { operations } from "../contract/operations.ts";
import { listen } from "../http/server.ts";
import { createTestApp } from "../http/app.fixture.ts";
import { ClientError } from "./client-error.ts";
import { createClient } from "./client.ts";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(closers.splice(0).map((close) => close()));
});

const started = async (service = createTestApp()) => {
  const server = await listen(service.app, { host: "127.0.0.1", port: 0 });
  closers.push(() => server.close(0));
  return { ...service, url: server.url, client: createClient({ baseUrl: server.url }) };
};

/** Some other program than the service. */
const stranger = async (listener: RequestListener): Promise<string> => {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  closers.push(async () => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const failureOf = async (call: Promise<unknown>): Promise<ClientError> => {
  const outcome: unknown = await call.catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(ClientError);
  return outcome as ClientError;
};

describe("operations", () => {
  test("each is a method with the types of the registry", async () => {
    const { client } = await started();
    const { job } = await client.run_task({ task: "do it: ümläut", repo_url: "https://github.com/acme/app" });
    expectTypeOf(job).toEqualTypeOf<Job>();
    expect(job).toMatchObject({ task: "do it: ümläut", status: "queued" });
    expect((await client.get_job({ job_id: job.id })).job.id).toBe(job.id);
    expect((await client.list_jobs()).count).toBe(1);
    expect((await client.list_jobs({ limit: 1, status: "failed" })).jobs).toEqual([]);
    expect((await client.cancel_job({ job_id: job.id })).job.status).toBe("cancelled");
    expect((await client.list_profiles()).profiles[0]?.name).toBe("review");
    expect(await client.health()).toEqual({ status: "ok", service: "svc" });
    expect(Object.keys(client)).toEqual(expect.arrayContaining(Object.keys(operations)));
  });

  test("an idempotency key is sent", async () => {
    const { client, contexts } = await started();
    await client.run_task({ task: "x" }, { idempotencyKey: "k-1" });
    expect(contexts[0]?.idempotencyKey).toBe("k-1");
  });

  test("a call that is aborted rejects with the caller's reason, and the service learns of it", async () => {
    const { client, contexts } = await started();
    const stop = new AbortController();
    const waiting = client.run_task({ task: "x", wait: true }, { signal: stop.signal });
    await expect.poll(() => contexts.length).toBe(1);
    stop.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    await expect.poll(() => contexts[0]?.signal.aborted).toBe(true);
  });
});

describe("failures", () => {
  test("carry status, code, sentence and when to ask again", async () => {
    const { client } = await started();
    expect(await failureOf(client.list_jobs({ limit: 5000 }))).toMatchObject({
      status: 400,
      code: "invalid_request",
      message: "limit: must be at most 1000",
      retryAfter: undefined,
    });
    const url = await stranger((_, response) =>
      response
        .writeHead(503, { "retry-after": "7" })
        .end('{"success":false,"error":"Full","code":"queue_full"}'),
    );
    expect(await failureOf(createClient({ baseUrl: url }).run_task({ task: "x" }))).toMatchObject({
      status: 503,
      code: "queue_full",
      message: "Full",
      retryAfter: 7,
    });
  });

  test.each(["a/b", "../x", "a?b#c", "%2f", "ü", "\ud800", "", ".", "..", "a b"])(
    "the id %j names no job, and nothing else is asked for",
    async (job_id) => {
      const { client, jobs } = await started();
      await client.run_task({ task: "x" });
      expect(await failureOf(client.get_job({ job_id }))).toMatchObject({
        status: 404,
        code: "job_not_found",
      });
      expect(await failureOf(client.cancel_job({ job_id }))).toMatchObject({
        status: 404,
        code: "job_not_found",
      });
      expect([...jobs.values()].map(({ status }) => status)).toEqual(["queued"]);
    },
  );

  test("a missing or wrong key says which setting to look at; the right one is accepted, beyond ASCII too", async () => {
    const { url } = await started(createTestApp({ apiKeys: ["schlüssel ✓"] }));
    for (const apiKey of [undefined, "", "wrong"]) {
      const error = await failureOf(createClient({ baseUrl: url, apiKey }).list_jobs());
      expect(error).toMatchObject({ status: 401, code: "unauthorized" });
      expect(error.message).toContain("set SERVICE_API_KEY");
    }
    expect((await createClient({ baseUrl: `${url}/`, apiKey: "schlüssel ✓" }).list_jobs()).count).toBe(0);
    expect((await failureOf(createClient({ baseUrl: url, apiKey: "a\nb" }).list_jobs())).message).toContain(
      "line break",
    );
  });

  test("a service that is not there is said to be not there, with the way out", async () => {
    const url = await stranger(() => {});
    await closers.splice(0)[0]?.();
    const error = await failureOf(createClient({ baseUrl: url }).health());
    expect(error).toMatchObject({ status: 0, code: "unreachable" });
    expect(error.message).toBe(
      `No service answers at ${url}; start it with svc serve, or set SERVICE_HOST and SERVICE_PORT`,
    );
  });

  test.each([
    ["a page", 200, "text/html", "<html>"],
    ["a proxy's fault", 502, "text/html", "<html>Bad gateway"],
    ["JSON that is no object", 200, "application/json", "5"],
    ["a failure of another kind", 500, "application/json", '{"message":"oops"}'],
    ["a redirect", 302, "text/plain", ""],
  ])("%s is not taken for the service's answer", async (_, status, type, body) => {
    const url = await stranger((__, response) =>
      response.writeHead(status, { "content-type": type, location: "/elsewhere" }).end(body),
    );
    const error = await failureOf(createClient({ baseUrl: url }).list_jobs());
    expect(error).toMatchObject({ status, code: "not_the_service" });
    expect(error.message).toContain(`answered ${status} with ${type}`);
  });

  test("a connection that breaks in the middle is said to have broken", async () => {
    const url = await stranger((request) => void request.socket.destroy());
    expect(await failureOf(createClient({ baseUrl: url }).list_jobs())).toMatchObject({
      status: 0,
      code: "no_answer",
    });
  });
});
