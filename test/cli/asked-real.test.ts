import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { temporaryDirectory } from "../temporary.ts";
import { svc } from "./run-svc.ts";

/* Questions of the fake agent, answered over the real service. */

const home = await temporaryDirectory();
const profiles = join(home, ".service", "profiles");
await mkdir(profiles, { recursive: true });
await writeFile(join(profiles, "planner.yml"), "extends: code\nplan: true\n");
// The process that has asked ends soon.
const service = await startService({ home, env: { SERVICE_QUESTION_LIVE: "1" } });
const { hostname, port } = new URL(service.url);
const env = { ...service.env, SERVICE_HOST: hostname, SERVICE_PORT: port };
const run = (...args: string[]) => svc(args, { env, cwd: home });

/** The id of a job that has asked. */
const asked = async (...args: string[]): Promise<string> => {
  const { code, stdout } = await run("run", "--no-repo", "--wait", ...args);
  expect(code).toBe(4);
  return stdout.split("\n")[0] ?? "";
};

test("a question is answered by the number of an option, once, after its process has ended", async () => {
  const id = await asked("scenario: ask");
  await until(async () => (await service.client.get_job({ job_id: id })).job.pid === null);
  expect(await run("wait", id)).toMatchObject({
    code: 4,
    stderr: expect.stringContaining("Which database?\n  1  Postgres  A server\n  2  SQLite    A file\n"),
  });
  expect((await run("answer", id, "--choice", "2")).code).toBe(0);
  expect((await run("answer", id, "Postgres")).stderr).toMatch(/waits for no answer/);
  expect(await run("wait", id)).toMatchObject({ code: 0, stdout: expect.stringMatching(/ {2}succeeded/) });
  expect((await run("diff", id)).stdout).toContain('"Which database?"="SQLite"');
});

test("a plan is sent back, comes again with the words, and is approved", async () => {
  const id = await asked("scenario: plan", "-p", "planner");
  expect((await run("answer", id, "--send-back", "Smaller steps")).code).toBe(0);
  const again = await run("wait", id);
  expect(again).toMatchObject({ code: 4, stderr: expect.stringContaining("Smaller steps") });
  expect((await run("answer", id, "--approve")).code).toBe(0);
  expect((await run("wait", id)).code).toBe(0);
});

test("a plan that is refused is the end of the job, which has succeeded", async () => {
  const id = await asked("scenario: plan", "--plan");
  expect((await run("answer", id, "--refuse")).code).toBe(0);
  expect((await run("wait", id)).code).toBe(0);
  expect((await run("job", id)).stdout).toMatch(/^Outcome +plan$/m);
});
