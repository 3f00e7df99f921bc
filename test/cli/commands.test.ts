import { beforeAll, describe, expect, test } from "vitest";
import { sampleJob } from "./sample-job.ts";
import { startSvc, svc } from "./run-svc.ts";
import { json, stubService, type Stub } from "./stub-service.ts";

const job = sampleJob({ status: "running" });
// A field that a later service adds is passed on too.
const bodies = {
  job: { success: true, job, added_later: 1 },
  list: { success: true, count: 1, jobs: [job], next_cursor: "abc", added_later: 1 },
  empty: { success: true, count: 0, jobs: [], next_cursor: null },
  cancelled: { success: true, job: { ...job, status: "cancelled", worktree_path: "/w" } },
  profiles: { success: true, count: 0, profiles: [] },
  instances: {
    success: true,
    count: 1,
    queue: { waiting: 2, running: 1, oldest_wait_seconds: 7 },
    lost: 1,
    recovered: 0,
    limits: [],
    instances: [
      {
        name: "build-1",
        version: "1.0.0",
        started_at: "2026-05-01T12:00:00.000Z",
        running: 1,
        max_parallel_jobs: 3,
        turns: 0,
        draining: false,
        added_later: 1,
      },
    ],
  },
};

let stub: Stub;
let env: Record<string, string>;
beforeAll(async () => {
  stub = await stubService({
    "POST /jobs": ({ body }, response) => {
      const { task } = JSON.parse(body) as { task: string };
      const refused = { success: false, error: "base_ref: no such \u001b[2Jref", code: "invalid_ref" };
      json(task === "bad" ? 400 : 200, task === "bad" ? refused : bodies.job)({} as never, response);
    },
    "GET /jobs": ({ url }, response) => {
      json(200, url.includes("status=failed") ? bodies.empty : bodies.list)({} as never, response);
    },
    [`GET /jobs/${job.id}`]: json(200, bodies.job),
    [`DELETE /jobs/${job.id}`]: json(200, bodies.cancelled),
    "GET /jobs/nosuch": json(404, { success: false, error: "There is no job nosuch", code: "job_not_found" }),
    "GET /profiles": json(200, bodies.profiles),
    "GET /instances": json(200, bodies.instances),
  });
  env = { SERVICE_PORT: String(stub.port) };
});

const lastRequest = () => stub.requests.at(-1);

describe("--json prints the body of the REST interface, every field of it", () => {
  test.each([
    [["run", "x", "-r", ".", "--json"], bodies.job],
    [["jobs", "--json"], bodies.list],
    [["job", job.id, "--json"], bodies.job],
    [["cancel", job.id, "--json"], bodies.cancelled],
    [["profiles", "--json"], bodies.profiles],
    [["instances", "--json"], bodies.instances],
  ])("svc %j", async (args, body) => {
    const { code, stdout, stderr } = await svc(args, { env });
    expect(JSON.parse(stdout)).toEqual(body);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });

  test("of a failure too", async () => {
    const { code, stdout, stderr } = await svc(["job", "nosuch", "--json"], { env });
    expect(JSON.parse(stdout)).toEqual({
      success: false,
      error: "There is no job nosuch",
      code: "job_not_found",
    });
    expect({ code, stderr }).toEqual({ code: 1, stderr: "svc: There is no job nosuch\n" });
  });
});

describe("svc run", () => {
  test("sends what its options say", async () => {
    const options =
      "-r https://h/a/b -p review --base-ref dev --session-id s --file-path /f --create-repo --public --idempotency-key k --also git@h:a/c.git@v2 --also https://h/d@e/f";
    const { code, stdout } = await svc(["run", ...options.split(" "), "--", "-x"], { env });
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${job.id}\n` });
    expect(lastRequest()?.headers["idempotency-key"]).toBe("k");
    expect(JSON.parse(lastRequest()?.body ?? "")).toEqual({
      task: "-x",
      repo_url: "https://h/a/b",
      profile: "review",
      base_ref: "dev",
      session_id: "s",
      file_path: "/f",
      create_repo: true,
      private: false,
      worktree_id: "",
      allow_hosts: [],
      repositories: [
        { repo_url: "git@h:a/c.git", base_ref: "v2" },
        { repo_url: "https://h/d@e/f", base_ref: "" },
      ],
    });
    // Which does not go with making a repository.
    expect((await svc(["run", "x", "--worktree-id", "w"], { env })).code).toBe(0);
    expect(JSON.parse(lastRequest()?.body ?? "")).toMatchObject({ worktree_id: "w", create_repo: false });
  });

  test("has the documented defaults, and means a relative path from here", async () => {
    await svc(["run", "x", "-r", "./sub"], { env, cwd: "/usr" });
    expect(JSON.parse(lastRequest()?.body ?? "")).toEqual({
      task: "x",
      repo_url: "/usr/sub",
      profile: "auto",
      base_ref: "",
      session_id: "",
      file_path: "",
      create_repo: false,
      private: true,
      worktree_id: "",
      allow_hosts: [],
      repositories: [],
    });
  });

  test("reads the task from standard input for -", async () => {
    await svc(["run", "-"], { env, input: "First line\n\nSecond — 日本語\n\n" });
    expect(JSON.parse(lastRequest()?.body ?? "")).toMatchObject({ task: "First line\n\nSecond — 日本語" });
  });

  test("ends with 2 when the service calls the input invalid, its words made harmless", async () => {
    const { code, stderr } = await svc(["run", "bad", "-r", "."], { env });
    expect({ code, stderr }).toEqual({ code: 2, stderr: "svc: --base-ref: no such ref\n" });
  });
});

describe("svc jobs", () => {
  test("passes limit, status and cursor on, and says that there are more", async () => {
    const { stdout, stderr } = await svc(["jobs", "-n", "5", "-s", "expired", "--cursor", "c"], { env });
    expect(stub.requests.map(({ url }) => url)).toContain("/jobs?limit=5&status=expired&cursor=c");
    expect(stdout.split("\n")).toEqual([
      expect.stringMatching(/^ID +STATUS +OUTCOME +REPOSITORY +PROFILE +AGE +DURATION +COST +TASK$/),
      expect.stringMatching(
        /^6f1c1a52 +running +– +acme\/app +code +\d+ d +– +– +Fix the failing date test$/,
      ),
      "2 waiting, the oldest for 7.0 s; 1 running: build-1 1 of 3",
      "1 job failed with a lost instance, 0 queued again after one",
      "",
    ]);
    expect(stderr).toBe("There are more: svc jobs -n 5 -s expired --cursor abc\n");
  });

  test("passes the agent session on, and names it where the list goes on", async () => {
    const { stderr } = await svc(["jobs", "--session", "s1", "-s", "expired"], { env });
    expect(stub.requests.map(({ url }) => url)).toContain("/jobs?limit=20&status=expired&session_id=s1");
    expect(stderr).toBe("There are more: svc jobs -n 20 -s expired --session s1 --cursor abc\n");
    const { stdout } = await svc(["jobs", "--session", "s1", "-s", "failed"], { env });
    expect(stdout).toMatch(/^No jobs found\n2 waiting/);
  });

  test("of a service that does not know its instances now lists the jobs alone", async () => {
    const answer = json(503, { success: false, error: "Away", code: "store_unavailable" });
    const { port } = await stubService({ "GET /jobs": json(200, bodies.empty), "GET /instances": answer });
    expect(await svc(["jobs"], { env: { SERVICE_PORT: String(port) } })).toEqual({
      code: 0,
      stdout: "No jobs found\n",
      stderr: "",
    });
  });

  test("as JSON asks for the jobs alone", async () => {
    const asked = stub.requests.length;
    await svc(["jobs", "--json"], { env });
    expect(stub.requests.slice(asked).map(({ url }) => url.split("?")[0])).toEqual(["/jobs"]);
  });
});

describe("svc instances", () => {
  test("has a line for each, and the queue below", async () => {
    const { code, stdout, stderr } = await svc(["instances"], { env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(
      /^STATE +RUNNING +TURNS +UP +VERSION +NAME\nready +1 of 3 +0 +\S+ \S+ +1\.0\.0 +build-1\n2 waiting/,
    );
  });
});

test("svc cancel reports what has become of the job", async () => {
  const short = job.id.slice(0, 8);
  expect((await svc(["cancel", job.id], { env })).stdout).toBe(
    `Job ${job.id} is cancelled\n` +
      `What it has changed is saved once its agent has ended: svc diff ${short}, svc checkout ${short}\n`,
  );
});

describe("the key", () => {
  test.each([
    [{ SERVICE_API_KEY: "own", SERVICE_API_KEYS: "one,two" }, "own"],
    [{ SERVICE_API_KEYS: "one,two" }, "one"],
    [{}, undefined],
  ])("with %j is %s", async (keys, sent) => {
    await svc(["profiles"], { env: { ...env, ...keys } });
    expect(lastRequest()?.headers["x-api-key"]).toBe(sent);
  });
});

describe("svc config", () => {
  test("reports each setting with its source, secrets masked", async () => {
    const { code, stdout } = await svc(["config"], {
      env: { SERVICE_PORT: "8300", SERVICE_API_KEYS: "canary-key" },
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^NAME +VALUE +SOURCE\n/);
    expect(stdout).toMatch(/^SERVICE_PORT +8300 +environment, SERVICE_PORT$/m);
    expect(stdout).toMatch(/^SERVICE_HOST +127\.0\.0\.1 +default$/m);
    expect(stdout).not.toContain("canary-key");
    const { stdout: text } = await svc(["config", "--json"], { env: { SERVICE_API_KEYS: "canary-key" } });
    expect(text).not.toContain("canary-key");
    expect(JSON.parse(text)).toMatchObject({
      settings: expect.arrayContaining([expect.objectContaining({ name: "SERVICE_PORT", value: "8200" })]),
    });
  });

  test("names every fault and ends with 1", async () => {
    const { code, stderr } = await svc(["config"], { env: { SERVICE_PORT: "x", SERVICE_JOB_TTL: "y" } });
    expect(stderr).toMatch(/SERVICE_PORT[^]*SERVICE_JOB_TTL/);
    expect(code).toBe(1);
  });

  test("warns of a variable that has no effect", async () => {
    const { stderr } = await svc(["config"], { env: { SERVICE_PROT: "1" } });
    expect(stderr).toMatch(/^svc: warning: SERVICE_PROT /m);
  });
});

describe("colours", () => {
  const colour = "\u001b[";
  test("are off without a terminal and on with FORCE_COLOR", async () => {
    expect((await svc(["jobs"], { env })).stdout).not.toContain(colour);
    expect((await svc(["jobs"], { env: { ...env, FORCE_COLOR: "1" } })).stdout).toContain(
      `${colour}36mrunning`,
    );
  });
});

test("a reader that has seen enough is no failure", async () => {
  const { child, ended } = startSvc(["job", job.id], { env });
  child.stdout?.destroy();
  const { code, stderr } = await ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});
