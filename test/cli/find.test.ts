import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { at, ended } from "../ports/job-record-sample.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { svc } from "./run-svc.ts";

/*
 * How a job is found again: by the beginning of its id, as the last one, and by what it is. The service starts with jobs of
 * an earlier one: n was submitted n seconds into 2026.
 */

const tail = "-0000-4000-8000-000000000000";
const ids = ["abcd0001", "abcd0002", "abcd0003", "dcba0004"].map((start) => start + tail);
const forever = { ttl_seconds: 1e9 };
const records = [
  { task: "Fix the date test", repo_url: "https://github.com/acme/app.git", profile: "code" },
  { task: "Review the DATE code", repo_url: "git@github.com:acme/app.git", profile: "review" },
  {
    task: "Write docs",
    repo_url: "https://github.com/acme/other",
    profile: "code",
    status: "failed" as const,
    failure_reason: "timeout" as const,
    error: "The agent ran for longer than 1800 s and was ended",
  },
  { task: "Write tests", repo_url: "", profile: "code" },
].map((over, n) =>
  ended({ id: String(ids[n]), created_at: at(n + 1), ended_at: at(60), ...forever, ...over }),
);

let service: Service;
let env: Record<string, string>;
beforeAll(async () => {
  const home = await temporaryDirectory();
  const jobs = join(home, ".service", "jobs");
  await mkdir(jobs, { recursive: true });
  await writeFile(join(jobs, ".format"), "4\n");
  for (const record of records) await writeFile(join(jobs, `${record.id}.json`), JSON.stringify(record));
  service = await startService({ home });
  env = { HOME: home, SERVICE_PORT: new URL(service.url).port };
});

const run = (...args: string[]) => svc(args, { env });

/** The numbers of the jobs in the list, in its order. */
const listed = async (...args: string[]): Promise<number[]> => {
  const { stdout } = await run("jobs", "-q", ...args);
  return stdout
    .trim()
    .split("\n")
    .map((id) => ids.indexOf(id) + 1)
    .filter((n) => n > 0);
};

test("a job is shown by the beginning of its id, by its branch, as the latest and as the last one", async () => {
  const before = await run("job", "-");
  expect(before).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^svc: - is the job .*give an id, or latest/),
  });
  const shows = async (word: string, id: string | undefined) =>
    expect((await run("job", word)).stdout).toMatch(new RegExp(`^ID +${id}$`, "m"));
  await shows("DCBA", ids[3]);
  await shows("-", ids[3]);
  await shows("service/abcd0002", ids[1]);
  await shows("abcd0001-0000", ids[0]);
  await shows("latest", ids[3]);
  expect(await run("job")).toEqual(await run("job", "latest"));
  expect((await run("logs", "abcd0003")).stdout).toMatch(
    /\nStatus +failed \(timeout\)\nError +The agent ran for longer .*\nWhat to do +Split the task.*\nNext +svc job abcd0003\n$/,
  );
  expect((await run("jobs", "--failed")).stdout).toMatch(
    /abcd0003 +failed +timeout .*Write docs → timeout: The agent ran for longer/,
  );
  const submitted = (await run("run", "scenario: text")).stdout.trim();
  await shows("latest", submitted);
  await shows("-", submitted);
  expect((await run("wait")).stdout).toContain(submitted);
  expect(await run("files")).toEqual(await run("files", submitted));
  for (const command of ["logs", "diff"]) {
    const { code, stdout } = await run(command, submitted);
    expect(await run(command)).toMatchObject({ code, stdout });
  }
  expect((await run("cancel", "dcba")).stdout).toContain("had ended before: succeeded");
  const events = await fetch(`${service.url}/jobs/${submitted.slice(0, 8)}/events`);
  expect(await events.text()).toMatch(/event: stage[^]*event: end/);
});

test("a beginning of several ids names them, newest first, and one of none says what to do", async () => {
  const { code, stderr } = await run("job", "abcd");
  expect({ code, lines: stderr.split("\n") }).toEqual({
    code: 2,
    lines: [
      "svc: Several ids begin with abcd: give more digits.",
      `  ${ids[2]}  failed  Write docs`,
      `  ${ids[1]}  succeeded  Review the DATE code`,
      `  ${ids[0]}  succeeded  Fix the date test`,
      "",
    ],
  });
  for (const job_id of ["abc", "ffff", "abcd0009"])
    await expect(service.client.get_job({ job_id })).rejects.toMatchObject({
      status: 404,
      message: expect.stringMatching(new RegExp(`There is no job ${job_id}; .*at least four digits`)),
    });
});

test("jobs are listed by repository however it is spelt, profile, time, status and words of the task", async () => {
  expect(await listed("--repo", "acme/app")).toEqual([2, 1]);
  expect(await listed("--repo", "ssh://git@GitHub.com/acme/app")).toEqual([2, 1]);
  expect(await listed("--repo", "acme/app", "--profile", "code")).toEqual([1]);
  expect(await listed("--search", "date  TEST")).toEqual([1]);
  expect(await listed("--failed")).toEqual([3]);
  expect(await listed("--since", at(3))).toEqual([4, 3]);
  const first = await run("jobs", "-q", "-n", "1", "--repo", "acme/app", "--search", "the date");
  expect(first.stdout).toBe(`${ids[1]}\n`);
  const [, more = ""] = /^There are more: svc (.*)\n$/.exec(first.stderr) ?? [];
  expect(more).toMatch(/^jobs -q -n 1 -r acme\/app --search 'the date' --cursor /);
  const next = await run(
    ...more
      .replaceAll("'the date'", "the\u0000date")
      .split(" ")
      .map((word) => word.replace("\u0000", " ")),
  );
  expect(next).toMatchObject({ stdout: `${ids[0]}\n`, stderr: "" });
  expect((await run("ls", "--since", "3d", "-p", "nobody")).stdout).toMatch(/^No jobs found\n/);
  expect(await run("ps", "--since", "soon")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/30m, 2h, 3d/),
  });
  expect(await run("ps", "--active", "--failed")).toMatchObject({ code: 2 });
});

test("--active has what waits and what runs", async () => {
  const id = (await run("run", "scenario: hang")).stdout.trim();
  await until(async () => / running .*scenario: hang/.test((await run("jobs", "--active")).stdout));
  await service.client.cancel_job({ job_id: id });
});
