import { getEventListeners } from "node:events";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Failure, ServiceError } from "../contract/errors.ts";
import { operations } from "../contract/operations.ts";
import { createTestApp, memoryHandlers } from "./app.fixture.ts";

const post = (
  body: string,
  headers: Record<string, string> = { "content-type": "application/json" },
): RequestInit => ({
  method: "POST",
  body,
  headers,
});

const submitted = async ({ app }: ReturnType<typeof createTestApp>): Promise<string> => {
  const answer = await app.request("/jobs", post('{"task":"do it"}'));
  return operations.run_task.output.parse(await answer.json()).job.id;
};

/** Status and body of a failure, which must have the shape of the contract. */
const failureOf = async (answer: Response | Promise<Response>) => {
  const response = await answer;
  return { status: response.status, ...Failure.strict().parse(await response.json()) };
};

describe("operations", () => {
  test("a task is submitted, read, listed and cancelled, with the answers of the contract", async () => {
    const service = createTestApp();
    const { app } = service;
    const id = await submitted(service);
    const got = await app.request(`/jobs/${id}`);
    expect(got.status).toBe(200);
    expect(operations.get_job.output.parse(await got.json()).job).toMatchObject({
      id,
      task: "do it",
      status: "queued",
    });
    const listed = operations.list_jobs.output.parse(
      await (await app.request("/jobs?limit=5&status=queued")).json(),
    );
    expect(listed.jobs.map((job) => job.id)).toEqual([id]);
    const cancelled = await app.request(`/jobs/${id}`, { method: "DELETE" });
    expect(operations.cancel_job.output.parse(await cancelled.json()).job.status).toBe("cancelled");
    const profiles = await app.request("/profiles");
    expect(operations.list_profiles.output.parse(await profiles.json()).count).toBe(1);
  });

  test("the Idempotency-Key reaches the operation that it matters to", async () => {
    const { app, contexts } = createTestApp();
    await app.request(
      "/jobs",
      post('{"task":"x"}', { "content-type": "application/json", "idempotency-key": "k-1" }),
    );
    expect(contexts[0]).toMatchObject({ idempotencyKey: "k-1", principal: "open" });
    await app.request(
      "/jobs",
      post('{"task":"x"}', { "content-type": "application/json", "idempotency-key": "" }),
    );
    expect(contexts[1]?.idempotencyKey).toBe(undefined);
  });

  test("every answer has the headers against caching and sniffing, and a request id", async () => {
    const { app } = createTestApp();
    for (const path of ["/jobs", "/health", "/nothing", "/jobs/x", "/openapi.json"]) {
      const { headers } = await app.request(path);
      expect({ path, ...Object.fromEntries(headers) }).toMatchObject({
        path,
        "content-type": "application/json",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "x-request-id": expect.stringMatching(/^[\da-f-]{36}$/),
      });
      expect(headers.has("access-control-allow-origin")).toBe(false);
    }
  });

  test("HEAD answers where GET does, without a body", async () => {
    const service = createTestApp();
    const id = await submitted(service);
    for (const path of ["/jobs", "/health", "/docs", `/jobs/${id}`, `/jobs/${id}/events`]) {
      const answer = await service.app.request(path, { method: "HEAD" });
      expect([path, answer.status, await answer.text()]).toEqual([path, 200, ""]);
    }
    expect(getEventListeners(service.closing.signal, "abort")).toEqual([]);
  });
});

describe("paths", () => {
  test.each([
    ["/nothing", "There is nothing at /nothing; GET /openapi.json lists what there is"],
    ["/jobs//", "There is nothing at /jobs//; did you mean /jobs?"],
    ["//jobs", "There is nothing at //jobs; did you mean /jobs?"],
    [
      `/jobs/${"x".repeat(5000)}//`,
      `There is nothing at /jobs/${"x".repeat(194)}; did you mean /jobs/${"x".repeat(194)}?`,
    ],
  ])("%s is a 404 that names a way out", async (path, error) => {
    const { app } = createTestApp();
    expect(await failureOf(app.request(new Request(`http://localhost${path}`)))).toEqual({
      status: 404,
      success: false,
      code: "not_found",
      error,
    });
  });

  test.each([
    ..."..%2f..%2fetc%2fpasswd %2e%2e%2fx %00 a%0ab __proto__ constructor %25zz é".split(" "),
    "x".repeat(5000),
  ])("an id like %s is a job that does not exist", async (id) => {
    const { app } = createTestApp();
    const missing = { status: 404, code: "job_not_found" };
    expect(await failureOf(app.request(`/jobs/${id}`))).toMatchObject(missing);
    expect(await failureOf(app.request(`/jobs/${id}/events`))).toMatchObject(missing);
    expect(await failureOf(app.request(`/jobs/${id}`, { method: "DELETE" }))).toMatchObject(missing);
  });

  test.each(["/jobs/%zz", "/jobs/%", "/jobs/%c0%80", "/jobs?status=%zz", "/jobs?%e0%a4=x"])(
    "%s has a broken percent-encoding and is a 400",
    async (path) => {
      expect(await failureOf(createTestApp().app.request(path))).toMatchObject({
        status: 400,
        code: "invalid_request",
      });
    },
  );

  test("a slash at the end is the same address, of any route", async () => {
    const { app } = createTestApp();
    for (const path of ["/jobs", "/health", "/openapi.json", "/profiles"])
      expect([path, (await app.request(`${path}/`)).status]).toEqual([path, 200]);
    expect(await failureOf(app.request("/jobs/x/"))).toMatchObject({ status: 404, code: "job_not_found" });
    const docs = await app.request("/docs/?api_key=a%20b");
    expect([docs.status, docs.headers.get("location")]).toEqual([302, "../docs?api_key=a%20b"]);
  });

  test.each([
    ["PUT", "/jobs/", "POST, GET, HEAD"],
    ["PUT", "/jobs", "POST, GET, HEAD"],
    ["POST", "/jobs/x", "GET, DELETE, HEAD"],
    ["DELETE", "/jobs", "POST, GET, HEAD"],
    ["POST", "/health", "GET, HEAD"],
    ["OPTIONS", "/profiles", "GET, HEAD"],
    ["PATCH", "/jobs/x/events", "GET, HEAD"],
    ["PROPFIND", "/jobs", "POST, GET, HEAD"],
  ])("%s %s is a 405 that allows %s", async (method, path, allowed) => {
    const answer = await createTestApp().app.request(path, { method });
    expect(new Set(answer.headers.get("allow")?.split(", "))).toEqual(new Set(allowed.split(", ")));
    expect(await failureOf(answer)).toMatchObject({ status: 405, code: "method_not_allowed" });
  });
});

describe("errors", () => {
  const failing = (error: unknown) => {
    const handlers = memoryHandlers(new Map());
    // The boundary must stand whatever is thrown, an Error or not.
    const list_jobs = () => Promise.reject(error as Error);
    return createTestApp({ handlers: { ...handlers, list_jobs } });
  };

  test("an unreachable store is a 503 with Retry-After", async () => {
    const { app } = failing(new ServiceError("store_unavailable", "The disk is full"));
    const answer = await app.request("/jobs");
    expect(answer.headers.get("retry-after")).toBe("5");
    expect(await failureOf(answer)).toMatchObject({
      status: 503,
      code: "store_unavailable",
      error: "The disk is full",
    });
    const draining = failing(new ServiceError("draining", "Shutting down", { retryAfter: 10 }));
    expect((await draining.app.request("/jobs")).headers.get("retry-after")).toBe("10");
  });

  test.each([[new Error("secret detail")], ["a string"], [undefined], [{ status: 200 }]])(
    "an unexpected %s is a 500 with the request id, its stack only in the log",
    async (thrown) => {
      const { app, lines } = failing(thrown);
      const answer = await app.request("/jobs");
      const id = answer.headers.get("x-request-id") ?? "none";
      const failure = await failureOf(answer);
      expect(failure).toMatchObject({ status: 500, code: "internal" });
      expect(failure.error).toContain(id);
      expect(failure.error).not.toContain("secret");
      expect(lines.find((line) => line["level"] === "error")).toMatchObject({ request_id: id, err: thrown });
    },
  );

  test("each request is one line in the log, keys masked, probes only at debug", async () => {
    const { app, lines } = createTestApp({ apiKeys: ["sesame"] });
    await app.request("/jobs?limit=3&api_key=sesame&api_%6b%65y=sesame");
    await app.request("/jobs?limit=3&apikey=sesame", { headers: { "x-api-key": "sesame" } });
    await app.request("/health?state=sesame&code=sesame");
    expect(lines.map(({ level, method, path, status }) => [level, method, path, status])).toEqual([
      ["info", "GET", "/jobs?limit=3&api_key=***&api_%6b%65y=***", 200],
      ["info", "GET", "/jobs?limit=3&apikey=***", 400],
      ["debug", "GET", "/health?state=***&code=***", 200],
    ]);
    expect(JSON.stringify(lines)).not.toContain("sesame");
  });
});

describe("whatever is sent", () => {
  const methods = fc.constantFrom("GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH", "X-ODD");
  const segment = fc.oneof(
    fc.constantFrom("", ..."jobs profiles health events docs .. . % %2f %zz openapi.json".split(" ")),
    fc.string({ maxLength: 20 }),
  );
  const queries = fc.oneof(
    fc.constantFrom(
      "",
      ..."? ?limit=1e2 ?limit=%205 ?limit ?limit=1&limit=2 ?status=queued ?after=-1 ?&&=& ?__proto__=1".split(
        " ",
      ),
    ),
    fc.string({ maxLength: 30 }).map((text) => `?${text}`),
    fc.webQueryParameters().map((text) => `?${text}`),
  );
  const bodies = fc.oneof(
    fc.string(),
    fc.json(),
    fc.uint8Array({ maxLength: 50 }),
    fc
      .dictionary(
        fc.constantFrom(...Object.keys(operations.run_task.input.shape), "__proto__"),
        fc.jsonValue(),
      )
      .map((value) => JSON.stringify(value)),
    fc.string().map((task) => JSON.stringify({ task })),
  );
  const contentTypes = fc.constantFrom(
    "application/json; charset=utf-8",
    ..."application/json text/plain application/x+json ;; application/json;charset=latin1".split(" "),
  );

  const expectRedirectToDocs = async (answer: Response): Promise<void> => {
    expect([answer.headers.get("location"), await answer.text()]).toEqual([
      expect.stringMatching(/^\.\.\/docs(\?|$)/u),
      "",
    ]);
  };

  test("no request makes the service fail, every answer is JSON or empty, and one that leads elsewhere stays here", async () => {
    const { app } = createTestApp();
    await fc.assert(
      fc.asyncProperty(
        methods,
        fc.array(segment, { maxLength: 4 }),
        queries,
        bodies,
        contentTypes,
        async (method, segments, query, body, type) => {
          const url = URL.parse(`http://localhost/${segments.join("/")}${query}`);
          if (url === null || url.host !== "localhost") return;
          const payload =
            method === "GET" || method === "HEAD"
              ? {}
              : { body: typeof body === "string" ? body : Uint8Array.from(body) };
          const answer = await app.request(url.href, {
            method,
            headers: { "content-type": type },
            ...payload,
          });
          expect([200, 302, 400, 404, 405]).toContain(answer.status);
          if (answer.status === 302) await expectRedirectToDocs(answer);
          else if (answer.status !== 200) await (method === "HEAD" ? answer.text() : failureOf(answer));
          else await answer.body?.cancel();
        },
      ),
      {
        numRuns: 500,
        examples: [["GET", ["docs", ""], "?", "{}", "application/json; charset=utf-8"]],
      },
    );
  });
});
