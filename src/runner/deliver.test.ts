import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { plainGit } from "../repos/plain-git.fixture.ts";
import { claimJob } from "./runner.fixture.ts";

test("the profile's template is the message of the service's commit, with the job's mark below; braces of a task stay", async () => {
  const report = { outcome: "changed", summary: "Left {branch} dirty." };
  const task = `scenario: noop ${JSON.stringify({ dirt: true, report })}`;
  const job = await claimJob(task, { profile: "ours" });
  const profiles = join(job.home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  const template = "chore({profile}): {summary}\\n\\nJob {job_id} on {branch} {other";
  await writeFile(join(profiles, "ours.yml"), `extends: code\ndeliver: {commit_message: "${template}"}\n`);
  const { kind, patch } = await job.execute();
  expect({ kind, outcome: patch.outcome }).toEqual({ kind: "succeeded", outcome: "changed" });
  const { worktree_path, branch } = await job.stored();
  const message = await plainGit(String(worktree_path), "log", "-1", "--format=%B");
  const { id } = job.record;
  expect(message.trim()).toBe(
    `chore(ours): Left {branch} dirty.\n\nJob ${id} on ${branch} {other\n\nService-Job: ${id}`,
  );
});
