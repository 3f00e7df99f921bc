import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { svc } from "../cli/run-svc.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";

/** What a caller can get wrong in a request: each is refused in words that name it, and the service goes on. */
let service: Service;

beforeAll(async () => {
  service = await startService();
});

afterEach(async () => {
  const { status } = await fetch(`${service.url}/health`);
  if (status !== 200) throw new Error(`the service is not healthy any more: ${status}`);
});

type Refusal = { status: number; body: { success?: boolean; error?: string; code?: string } };

const ask = async (method: string, path: string, init: RequestInit = {}): Promise<Refusal> => {
  const response = await fetch(`${service.url}${path}`, { method, ...init });
  return { status: response.status, body: (await response.json()) as Refusal["body"] };
};

const post = (body: string, contentType = "application/json") =>
  ask("POST", "/jobs", { body, headers: { "content-type": contentType } });

const submit = (input: Record<string, unknown>) =>
  post(JSON.stringify({ task: "Do the default thing", ...input }));

const queued = async () => (await service.client.list_jobs({ limit: 1000 })).count;

test.each([
  ["a word", "nope"],
  ["a way up", "..%2f..%2f..%2fetc%2fpasswd"],
  ["a way up, encoded twice", "%252e%252e%252fjobs"],
  ["an absolute path", "%2fetc%2fpasswd"],
  ["a file of the store", ".lock"],
  ["a name every object has", "__proto__"],
  ["an id with a line break", "00000000-0000-4000-8000-000000000000%0a"],
  ["an id with a NUL", "00000000-0000-4000-8000-000000000000%00"],
  ["an id that nobody has", "00000000-0000-4000-8000-000000000000"],
  ["an id of 5,000 characters", "a".repeat(5000)],
])("%s as an id is a job that does not exist", async (_, id) => {
  for (const [method, path] of [
    ["GET", `/jobs/${id}`],
    ["DELETE", `/jobs/${id}`],
    ["GET", `/jobs/${id}/events`],
  ] as const) {
    const { status, body } = await ask(method, path);
    expect({ status, ...body }, `${method} ${path}`).toMatchObject({
      status: 404,
      success: false,
      code: "job_not_found",
    });
    expect(body.error).toMatch(/^There is no job /);
    expect(body.error?.length).toBeLessThan(200);
  }
});

test.each<[what: string, input: Record<string, unknown>, code: string, words: RegExp]>([
  ["no task", { task: "" }, "invalid_request", /task: must not be empty/],
  ["a blank task", { task: " \n\t" }, "invalid_request", /task: must not be blank/],
  [
    "a task of 100,001 characters",
    { task: "ä".repeat(100_001) },
    "invalid_request",
    /task: must have at most 100,000 characters/,
  ],
  [
    "a field that nothing has",
    { repo: "/srv/x" },
    "invalid_request",
    /repo: is not known, did you mean repo_url\?/,
  ],
  ["a number for a name", { profile: 7 }, "invalid_request", /profile: must be a string/],
  [
    "an unknown profile",
    { profile: "cod" },
    "unknown_profile",
    /"cod".*use one of code, review.*did you mean code\?/s,
  ],
  ["a path as a profile", { profile: "../../etc" }, "unknown_profile", /There is no profile "..\/..\/etc"/],
  [
    "a ref that is an option",
    { base_ref: "--upload-pack=x" },
    "invalid_ref",
    /"--upload-pack=x" is not a name that git takes/,
  ],
  [
    "an MCP file without a shared file system",
    { file_path: "/x.json" },
    "invalid_request",
    /file_path needs SERVICE_SHARED_FS_ROOT/,
  ],
  ["a ref that goes up", { base_ref: "a/../../b" }, "invalid_ref", /"a\/..\/..\/b" is not a name/],
  ["a ref with an expression", { base_ref: "main@{1}" }, "invalid_ref", /Give one like main/],
  ["a ref with a line break", { base_ref: "main\nx" }, "invalid_ref", /"main\?x" is not a name/],
  [
    "an option as a URL",
    { repo_url: "--upload-pack=touch x" },
    "invalid_repo_url",
    /Use https:\/\/host\/owner\/name/,
  ],
  ["a short option as a URL", { repo_url: "-oProxyCommand=x" }, "invalid_repo_url", /begins with a dash/],
  [
    "a helper program as a URL",
    { repo_url: "ext::sh" },
    "invalid_repo_url",
    /asks git to run a helper program/,
  ],
  [
    "a file descriptor as a URL",
    { repo_url: "fd::17/x" },
    "invalid_repo_url",
    /asks git to run a helper program/,
  ],
  [
    "an option as an ssh host",
    { repo_url: "ssh://-oProxyCommand=x/y" },
    "invalid_repo_url",
    /has no proper host name/,
  ],
  ["an unknown scheme", { repo_url: "ftp://host/x/y" }, "invalid_repo_url", /uses ftp:\/\//],
  [
    "plain http",
    { repo_url: "http://example.com/x/y" },
    "invalid_repo_url",
    /anybody on the way can read and change/,
  ],
  ["a relative path as a URL", { repo_url: "../repo" }, "invalid_repo_url", /is not a URL/],
  [
    "a session that nobody knows",
    { session_id: "00000000-0000-4000-8000-000000000000" },
    "invalid_request",
    /session_id: there is no agent session 00000000-0000-4000-8000-000000000000/,
  ],
  ["a session that is no UUID", { session_id: "../x" }, "invalid_request", /session_id: must be the UUID/],
  [
    "a worktree that does not exist",
    { worktree_id: "../../x" },
    "worktree_not_found",
    /There is no worktree .*or prepare one/,
  ],
])("%s is refused in words that say what to do", async (_, input, code, words) => {
  const before = await queued();
  const { status, body } = await submit(input);
  expect({ status, ...body }).toMatchObject({
    status: code === "worktree_not_found" ? 404 : 400,
    success: false,
    code,
  });
  expect(body.error).toMatch(words);
  expect(body.error?.length).toBeLessThan(600);
  expect(await queued()).toBe(before);
});

test("credentials in a URL are refused and shown nowhere", async () => {
  for (const repo_url of [
    "https://user:hunter2secret@example.com/x/y",
    "https://hunter2secret@example.com/x/y",
    "ssh://git:hunter2secret@example.com/x/y",
    "git:hunter2secret@example.com:x/y",
  ]) {
    const { status, body } = await submit({ repo_url });
    expect({ status, ...body }).toMatchObject({ status: 400, code: "invalid_repo_url" });
    expect(body.error).toMatch(/carries credentials; leave them out and set GIT_HOST and GIT_HOST_TOKEN/);
    expect(body.error).not.toContain("hunter2secret");
  }
  expect(service.output.stderr + service.output.stdout).not.toContain("hunter2secret");
});

test.each<[what: string, body: string, contentType: string, status: number, code: string, words: RegExp]>([
  [
    "not JSON",
    '{"task": "x",}',
    "application/json",
    400,
    "invalid_request",
    /not valid JSON: Expected double-quoted property name/,
  ],
  ["empty", "", "application/json", 400, "invalid_request", /empty; send a JSON object/],
  ["an array", "[]", "application/json", 400, "invalid_request", /must be a JSON object, not an array/],
  [
    "a form",
    "task=x",
    "application/x-www-form-urlencoded",
    400,
    "unsupported_content_type",
    /send application\/json/,
  ],
  ["text", '{"task": "x"}', "text/plain", 400, "unsupported_content_type", /"text\/plain" is not supported/],
  [
    "over 1 MiB",
    JSON.stringify({ task: "x".repeat(1_100_000) }),
    "application/json",
    413,
    "body_too_large",
    /1,048,576 bytes/,
  ],
])("a body that is %s is refused", async (_, text, contentType, status, code, words) => {
  const answer = await post(text, contentType);
  expect({ status: answer.status, ...answer.body }).toMatchObject({ status, success: false, code });
  expect(answer.body.error).toMatch(words);
});

test("svc prints a refusal on stderr in the service's words and exits 2", async () => {
  const env = { SERVICE_PORT: new URL(service.url).port };
  const [url, profile, task, id] = await Promise.all([
    svc(["run", "Do it", "--repo", "ext::sh"], { env }),
    svc(["run", "Do it", "--profile", "nope", "--json"], { env }),
    svc(["run", "-"], { env, input: "x".repeat(100_001) }),
    svc(["job", "../../etc/passwd"], { env }),
  ]);
  expect(url).toMatchObject({ code: 2, stdout: "" });
  expect(url.stderr).toMatch(/^svc: The repository URL "ext::sh" asks git to run a helper program/);
  expect(profile).toMatchObject({ code: 2 });
  expect(JSON.parse(profile.stdout)).toMatchObject({ success: false, code: "unknown_profile" });
  expect(task).toMatchObject({ code: 2, stdout: "" });
  expect(task.stderr).toMatch(
    /^svc: The task has 100,001 characters and may have 100,000: put the details into a file/,
  );
  expect(id).toMatchObject({ code: 1, stdout: "" });
  expect(id.stderr).toMatch(/^svc: There is no job \.\.\/\.\.\/etc\/passwd/);
});

test("after all of that the next job succeeds, with a task of 100,000 characters that reaches its agent whole", async () => {
  const remote = await makeRemote();
  const task = `Do the default thing ${"ä".repeat(99_979)}`;
  expect(task).toHaveLength(100_000);
  const { job } = await service.client.run_task({ task, repo_url: remote.path, wait: true });
  expect(job).toMatchObject({ status: "succeeded", task });
  expect(await remote.branches()).toContain(job.branch);
  expect(await transcriptOf(job)).toContain(task);
});

/** What the agent wrote down of its session. */
const transcriptOf = async ({ session_id }: Job): Promise<string> => {
  const projects = join(service.home, ".service", "projects");
  const files = await readdir(projects, { recursive: true });
  const file = files.find((name) => name.endsWith(`${session_id}.jsonl`));
  return await readFile(join(projects, String(file)), "utf8");
};
