import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { ServiceError } from "../contract/errors.ts";
import { operation, type Operation } from "../contract/operation.ts";
import { operations } from "../contract/operations.ts";
import { bodyLimits, parseJson } from "./body.ts";
import { inputReader } from "./operation-route.ts";

const fromQuery = (query: string) =>
  inputReader(operations.list_jobs)({ request: new Request(`http://localhost/jobs${query}`), path: {} });

const fromBody = (
  body: RequestInit["body"],
  contentType: string | null = "application/json",
  url = "http://localhost/jobs",
) => {
  const request = new Request(url, {
    method: "POST",
    body: body ?? null,
    ...(body instanceof ReadableStream && { duplex: "half" }),
  });
  request.headers.delete("content-type");
  if (contentType !== null) request.headers.set("content-type", contentType);
  return inputReader(operations.run_task)({ request, path: {} });
};

const refusal = async (reading: Promise<unknown>): Promise<string> => {
  const error: unknown = await reading.then(
    () => "was accepted",
    (reason: unknown) => reason,
  );
  return error instanceof ServiceError ? `${error.code} ${error.message}` : String(error);
};

const notKnown =
  "is not known, known are limit, status, outcome, session_id, repo_url, profile, since, q, cursor";
const statuses = "must be one of all, active, queued, running, succeeded, failed, cancelled, expired";

describe("query parameters", () => {
  test("an absent and an empty parameter take the default", async () => {
    const texts = {
      status: "",
      outcome: "",
      session_id: "",
      repo_url: "",
      profile: "",
      since: "",
      q: "",
      cursor: "",
    };
    expect(await fromQuery("")).toEqual({ limit: 20, ...texts });
    expect(await fromQuery("?limit=&status=&cursor&")).toEqual({ limit: 20, ...texts });
    expect(await fromQuery("?limit=7&status=failed&cursor=a%2Bb+c&api_key=k")).toEqual({
      ...texts,
      limit: 7,
      status: "failed",
      cursor: "a+b c",
    });
  });

  test.each([" 5", ..."1e2 5%20 %205 5+ 0x10 1.5 1. ٣ 05 +5 --5 Infinity NaN 1_000 ½".split(" ")])(
    "limit=%s is no whole number",
    async (limit) => {
      expect(await refusal(fromQuery(`?limit=${limit}`))).toBe(
        "invalid_request limit: must be a whole number",
      );
    },
  );

  test.each([
    ["?limit=1001", "limit: must be at most 1000"],
    ["?limit=0", "limit: must be at least 1"],
    ["?limit=-3", "limit: must be at least 1"],
    ["?limit=99999999999999999999", "limit: must be at most 1000"],
    ["?status=done", `status: ${statuses}`],
    ["?limit=1001&status=done", `limit: must be at most 1000; status: ${statuses}`],
    ["?limit=1&limit=1", "limit: is given more than once"],
    ["?limit=1&%6cimit=", "limit: is given more than once"],
    ["?limti=5", "limti: is not known, did you mean limit?"],
    [
      "?since=2026-13-01",
      "since: must be a date such as 2026-03-02 or an instant such as 2026-03-02T09:15:00Z",
    ],
    ["?colour=red", `colour: ${notKnown}`],
    ["?=5", `: ${notKnown}`],
    ["?__proto__=1", `__proto__: ${notKnown}`],
  ])("%s is refused: %s", async (query, sentence) => {
    expect(await refusal(fromQuery(query))).toBe(`invalid_request ${sentence}`);
  });

  test("booleans are true or false, and a path parameter is not taken from the query", async () => {
    const removal = operation({
      ...operations.cancel_job,
      input: z.strictObject({ job_id: z.string(), force: z.boolean().default(false) }),
    });
    const read = (query: string) =>
      inputReader(removal)({
        request: new Request(`http://localhost/jobs/x${query}`),
        path: { job_id: "x" },
      });
    expect(await read("?force=true")).toEqual({ job_id: "x", force: true });
    expect(await read("?force=")).toEqual({ job_id: "x", force: false });
    for (const text of ["1", "yes", "TRUE", "null"]) {
      expect(await refusal(read(`?force=${text}`))).toBe("invalid_request force: must be true or false");
    }
    expect(await refusal(read("?job_id=y"))).toContain("job_id: is not known");
  });

  test("every whole number in range is read as itself", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 1000 }), async (limit) => {
        expect((await fromQuery(`?limit=${limit}`)).limit).toBe(limit);
      }),
    );
  });
});

describe("bodies where the parameters are in the address", () => {
  const given = (name: "sync_companions" | "cancel_job", query: string, body: string) => {
    const called: Operation = operations[name];
    const { method } = called.http;
    const request = new Request(`http://localhost/x${query}`, { method, body });
    request.headers.set("content-type", "application/json");
    request.headers.set("content-length", String(body.length));
    return inputReader(called)({ request, path: name === "cancel_job" ? { job_id: "x" } : {} });
  };

  test("a post takes its parameters from either, and none from both", async () => {
    expect(await given("sync_companions", "", '{"target":"hub"}')).toEqual({ target: "hub" });
    expect(await given("sync_companions", "?target=hub", "{}")).toEqual({ target: "hub" });
    expect(await refusal(given("sync_companions", "?target=hub", '{"target":"hub"}'))).toBe(
      "invalid_request target: is given in the address and in the body",
    );
    expect(await refusal(given("sync_companions", "", '{"targets":"hub"}'))).toBe(
      "invalid_request targets: is not known, did you mean target?",
    );
    expect(await refusal(given("sync_companions", "", '{"target":"other"}'))).toContain(
      "target: must be one of",
    );
  });

  test("elsewhere a body is refused, not ignored", async () => {
    expect(await refusal(given("cancel_job", "", '{"force":true}'))).toBe(
      "invalid_request DELETE /jobs/{job_id} takes no body; send what it needs in the address",
    );
  });
});

describe("bodies", () => {
  test.each([
    "application/json",
    "Application/JSON; charset=UTF-8",
    'application/json;charset="utf-8"',
    "application/vnd.api+json",
  ])("%s is accepted", async (contentType) => {
    expect(await fromBody('{"task":"größer"}', contentType)).toMatchObject({
      task: "größer",
      base_ref: "",
      private: true,
    });
  });

  test.each([
    null,
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/mixed; boundary=x",
    "application/jsonp",
    "json",
    "",
  ])("content type %s is not supported", async (contentType) => {
    expect(await refusal(fromBody('{"task":"x"}', contentType))).toMatch(
      /^unsupported_content_type .*application\/json/,
    );
  });

  test("a charset other than UTF-8, a compressed body and bytes that are not UTF-8 are refused", async () => {
    expect(await refusal(fromBody('{"task":"x"}', "application/json; charset=latin1"))).toMatch(
      /^unsupported_content_type Charset "latin1"/,
    );
    expect(await refusal(fromBody(Uint8Array.of(0x7b, 0xff, 0x7d)))).toBe(
      "invalid_request The body is not valid UTF-8",
    );
    const request = new Request("http://localhost/jobs", {
      method: "POST",
      body: "x",
      headers: { "content-type": "application/json", "content-encoding": "gzip" },
    });
    expect(await refusal(inputReader(operations.run_task)({ request, path: {} }))).toMatch(
      /^unsupported_content_type Content-Encoding "gzip"/,
    );
  });

  test.each([
    ["", "The body is empty; send a JSON object"],
    ["[]", "The body must be a JSON object, not an array"],
    ["null", "task: is required"],
    ["false", "The body must be a JSON object, not a boolean"],
    ['"task"', "The body must be a JSON object, not a string"],
    ['{"task": "x",\n "repo_url": nope}', "The body is not valid JSON: Unexpected token"],
    ["{}", "task: is required"],
    ['{"task": ""}', "task: must not be empty"],
    ['{"task": " \\n"}', "task: must not be blank"],
    ['{"task": 5, "wait": "yes", "profile": null}', "task: must be a string; wait: must be true or false"],
    ['{"task": "x", "repo": "y"}', "repo: is not known, did you mean repo_url?"],
    ['{"task": "x", "__proto__": {"a": 1}}', "__proto__: is not known, known are task, repo_url, profile"],
    [`{"task": "${"x".repeat(100_001)}"}`, "task: must have at most 100,000 characters"],
    [`{"task": "x", "profile": "${"x".repeat(201)}"}`, "profile: must have at most 200 characters"],
  ])("%.40s is refused: %s", async (body, sentence) => {
    expect(await refusal(fromBody(body))).toContain(`invalid_request ${sentence}`);
  });

  test("parameters in the address of a post are refused by name", async () => {
    expect(
      await refusal(fromBody('{"task":"x"}', "application/json", "http://localhost/jobs?wait=true")),
    ).toBe("invalid_request wait: belongs in the JSON body, not in the address");
  });

  test("a body may have 1 MiB and not a byte more, also without a length", async () => {
    const sized = (bytes: number): string => `{"task":"x","repo_url":""${" ".repeat(bytes - 26)}}`;
    expect(sized(bodyLimits.bytes)).toHaveLength(bodyLimits.bytes);
    expect(await fromBody(sized(bodyLimits.bytes))).toMatchObject({ task: "x" });
    expect(await refusal(fromBody(sized(bodyLimits.bytes + 1)))).toMatch(/^body_too_large .*1,048,576/);
    let pulled = 0;
    const endless = new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array((pulled += 1) && 65_536)),
    });
    expect(await refusal(fromBody(endless))).toMatch(/^body_too_large/);
    expect(pulled).toBeLessThan(25);
  });
});

describe("what a client means", () => {
  test.each([
    ['{"task":"x","repo_url":null,"profile":null,"wait":null,"options":null}', {}],
    ['{"task":"x","options":{"model":null,"files":null,"setup_only":null}}', { options: {} }],
    [
      '{"task":"x","repositories":[{"repo_url":"https://h/a","base_ref":null}]}',
      { repositories: [{ base_ref: "" }] },
    ],
    ['{"task":"x","wait":"true"}', { wait: true }],
    ['{"task":"5","wait":"false"}', { task: "5", wait: false }],
    [
      '{"task":"x","options":{"max_turns":"5","max_budget_usd":"0.5","plan":"true","submodules":"false"}}',
      { options: { max_turns: 5, max_budget_usd: 0.5, plan: true, submodules: false } },
    ],
    ['{"task":"x","options":{"submodules":"recursive"}}', { options: { submodules: "recursive" } }],
  ])("%s is taken", async (body, expected) => {
    const plain = await fromBody('{"task":"x"}');
    const taken = await fromBody(body);
    expect(taken).toMatchObject({ ...plain, ...expected });
  });

  test.each([
    ['{"task":null}', "task: is required"],
    ['{"task":"x","repo":null}', "repo: is not known, did you mean repo_url?"],
    ['{"task":"x","wait":"yes"}', "wait: must be true or false"],
    ['{"task":"x","options":{"max_turns":"five"}}', "options.max_turns: must be a whole number"],
    ['{"task":"x","options":{"max_turns":"1.5"}}', "options.max_turns: must be a whole number"],
    ['{"task":"x","options":{"max_turns":" 5"}}', "options.max_turns: must be a whole number"],
    ['{"task":"x","repositories":[null]}', "repositories.0: must be an object"],
  ])("%s is refused: %s", async (body, sentence) => {
    expect(await refusal(fromBody(body))).toBe(`invalid_request ${sentence}`);
  });
});

describe("the size of JSON", () => {
  const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
  const list = (items: number): string => `[${Array(items).fill(1).join()}]`;
  const sizeOf = (json: string): string => {
    try {
      parseJson(Buffer.from(json), 100_000);
      return "fits";
    } catch (error) {
      return (error as Error).message;
    }
  };

  test.each([
    ["100 levels", nested(100), "fits"],
    ["101 levels", nested(101), "The JSON is nested more than 100 levels deep; send less"],
    ["one after the other", `[${Array(1000).fill(nested(90)).join()}]`, "fits"],
    ["90,000 values", `[${Array(10).fill(list(9_000)).join()}]`, "fits"],
    ["108,000 values", list(108_000), "The JSON has more than 100,000 values; send less"],
    ["what only looks like values", JSON.stringify(`${nested(500)}\\",:\\"${",".repeat(200_000)}`), "fits"],
  ])("%s", (_, json, size) => {
    expect(sizeOf(json)).toBe(size);
  });

  test("a body with too much of it is refused", async () => {
    expect(await refusal(fromBody(`{"task":${nested(500_000)}}`))).toMatch(/^invalid_request .*100 levels/);
    expect(await refusal(fromBody(`{"task":${list(20_000)}}`))).toMatch(/^invalid_request .*10,000 values/);
  });
});
