import { readdir, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { fakeAgent } from "../../test/service-process.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { claimJob } from "./runner.fixture.ts";

test("where the job works is on record when its agent is, though earlier progress was lost; why no pull request was opened is a warning", async () => {
  const job = await claimJob("scenario: work");
  const { kind, patch } = await job.execute({ note: () => undefined });
  expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
  const warning = await until(async () => (await job.stored()).warnings.at(-1));
  expect(warning).toMatch(/^The branch service\/\w+ was pushed, but no pull request was opened: /);
  expect(await job.stored()).toMatchObject({
    process: expect.anything(),
    worktree_id: job.record.id,
    worktree_path: expect.stringContaining(job.record.id) as string,
    branch: `service/${job.record.id.slice(0, 8)}`,
  });
});

test("a job whose agent leaves a file of 300 GB that holds nothing ends within a minute, with a warning that names it", async () => {
  const job = await claimJob("scenario: work");
  const { kind } = await job.execute({
    record: async (patch) => {
      const file = join(String(patch.worktree_path), "large.bin");
      if (patch.worktree_path) await writeFile(file, "");
      if (patch.worktree_path) await truncate(file, 300e9);
      return await job.run.record(patch);
    },
  });
  expect(kind).toBe("succeeded");
  const { warnings } = await job.stored();
  expect(warnings.join()).toContain("1 GiB of new files: large.bin");
}, 60_000);

test("a job that is stopped before its agent got the prompt waits again", async () => {
  const job = await claimJob("scenario: work");
  const outcome = await job.execute({
    record: async (patch) => {
      job.interrupt("shutdown");
      return await job.run.record(patch);
    },
  });
  expect(outcome).toMatchObject({ kind: "requeue", patch: { pid: null, process: null } });
});

test("the work of a lost job that is not tried again is saved, though its profile asks for another try", async () => {
  const job = await claimJob("scenario: noop", { attempt: 5, retry_lost: true });
  await job.execute();
  const record = await job.stored();
  await writeFile(join(String(record.worktree_path), "left.txt"), "unfinished\n");
  expect(await job.settleLost(record)).toMatchObject({
    requeue: false,
    patch: { salvage_ref: `refs/service/salvage/${record.id}` },
  });
});

test("an agent that is started again, because it has lost its question, finds nothing that the one before left in its configuration", async () => {
  const directory = await temporaryDirectory();
  const [agentCliBinary, seen] = [join(directory, "agent"), join(directory, "seen")];
  // The second process, which is to ask again, plants something; it is ended as soon as its question is known to be lost.
  const script = `#!/bin/sh
    [ "$1" != --version ] || exec "${fakeAgent}" "$@"
    trap '' TERM
    cd "$CLAUDE_CONFIG_DIR"
    [ -L projects ] && is=linked || is=replaced
    echo "$is $(ls planted 2>/dev/null)" >> ${seen}
    [ $(wc -l < ${seen}) != 2 ] || { rm projects; mkdir projects; : > planted; }
    cd "$OLDPWD"
    exec "${fakeAgent}" "$@"
`;
  await writeFile(agentCliBinary, script, { mode: 0o755 });
  const job = await claimJob("scenario: ask {}", {}, { agentCliBinary }, true);
  expect(await job.execute()).toMatchObject({ kind: "parked", deferred: true });
  const record = await job.stored();
  const projects = join(job.home, ".service", "projects");
  const names = await readdir(projects, { recursive: true });
  const transcript = join(projects, names.find((name) => name.endsWith(".jsonl")) ?? "");
  const lines = (await readFile(transcript, "utf8")).split("\n");
  await writeFile(transcript, lines.filter((line) => !line.includes("hook_deferred_tool")).join("\n"));
  const answer = { kind: "answers" as const, answers: {} };
  const asked = record.asked && { ...record.asked, answer, deferred: true };
  const resumed = { ...record, asked, resumed_at: new Date().toISOString() };
  const { kind, patch } = await job.execute({}, resumed);
  expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
  expect(await readFile(seen, "utf8")).toMatch(/^(linked \n){2,3}$/);
});
