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

test("an id that nobody has, whatever it looks like, is a job that does not exist", async () => {
  const uuid = "00000000-0000-4000-8000-000000000000";
  const up = ["..%2f..%2f..%2fetc%2fpasswd", "%252e%252e%252fjobs", "%2fetc%2fpasswd"];
  for (const id of ["nope", ...up, ".lock", "__proto__", `${uuid}%0a`, `${uuid}%00`, uuid, "a".repeat(5000)])
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

/** By the code of the answer. More refs and URLs: src/repos/ref.test.ts, src/contract/repository-url.test.ts. */
const refusals: Record<string, [input: Record<string, unknown>, words: RegExp][]> = {
  invalid_request: [
    [{ task: "" }, /task: must not be empty/],
    [{ task: " \n\t" }, /task: must not be blank/],
    [{ task: "ä".repeat(100_001) }, /task: must have at most 100,000 characters/],
    [{ repo: "/srv/x" }, /repo: is not known, did you mean repo_url\?/],
    [{ profile: 7 }, /profile: must be a string/],
    [{ file_path: "/x.json" }, /file_path needs SERVICE_SHARED_FS_ROOT/],
    [
      { session_id: "00000000-0000-4000-8000-000000000000" },
      /session_id: there is no agent session 00000000-0000-4000-8000-000000000000/,
    ],
    [{ session_id: "../x" }, /session_id: must be the UUID/],
  ],
  unknown_profile: [
    [{ profile: "cod" }, /"cod".*use one of code, review.*did you mean code\?/s],
    [{ profile: "../../etc" }, /There is no profile "..\/..\/etc"/],
  ],
  invalid_ref: [
    [{ base_ref: "--upload-pack=x" }, /"--upload-pack=x" is not a name that git takes/],
    [{ base_ref: "main@{1}" }, /Give one like main/],
    [{ base_ref: "main\nx" }, /"main\?x" is not a name/],
  ],
  invalid_repo_url: [
    [{ repo_url: "--upload-pack=touch x" }, /Use https:\/\/host\/owner\/name/],
    [{ repo_url: "ext::sh" }, /asks git to run a helper program/],
    [{ repo_url: "http://example.com/x/y" }, /anybody on the way can read and change/],
    [{ repo_url: "../repo" }, /is not a URL/],
  ],
  worktree_not_found: [[{ worktree_id: "../../x" }, /There is no worktree .*or prepare one/]],
};

test.each(Object.entries(refusals))("%s is answered in words that say what to do", async (code, cases) => {
  const before = await queued();
  for (const [input, words] of cases) {
    const { status, body } = await submit(input);
    const expected = { status: code === "worktree_not_found" ? 404 : 400, success: false, code };
    expect({ status, ...body }).toMatchObject(expected);
    expect(body.error).toMatch(words);
    expect(body.error?.length).toBeLessThan(600);
  }
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

test("a body that is no JSON object, or too large, is refused", async () => {
  const form = "application/x-www-form-urlencoded";
  const cases: [body: string, code: string, words: RegExp, contentType?: string][] = [
    ['{"task": "x",}', "invalid_request", /not valid JSON: Expected double-quoted property name/],
    ["", "invalid_request", /empty; send a JSON object/],
    ["[]", "invalid_request", /must be a JSON object, not an array/],
    ["task=x", "unsupported_content_type", /send application\/json/, form],
    ['{"task": "x"}', "unsupported_content_type", /"text\/plain" is not supported/, "text/plain"],
    [JSON.stringify({ task: "x".repeat(1_100_000) }), "body_too_large", /1,048,576 bytes/],
  ];
  for (const [text, code, words, contentType] of cases) {
    const { status, body } = await post(text, contentType);
    const expected = { status: code === "body_too_large" ? 413 : 400, success: false, code };
    expect({ status, ...body }).toMatchObject(expected);
    expect(body.error).toMatch(words);
  }
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
