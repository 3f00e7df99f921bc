import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";

let service: Service;

beforeAll(async () => {
  service = await startService();
});

const run = (over: Parameters<ReturnType<typeof asks>["run"]>[0]) => asks(service).run(over);

test("the agent gets the model, the turns and the files of its own job, and the job shows them", async () => {
  const image = Buffer.from([0x80, 0x50, 0x4e, 0x47, 0xff, 0x00]);
  const remote = await makeRemote();
  const options = {
    model: "opus",
    max_turns: 7,
    max_budget_usd: 0.5,
    timeout_seconds: 90,
    files: [
      { name: "log.txt", content: "12:00 — failed" },
      { name: "shot.bin", content: image.toString("base64"), encoding: "base64" as const },
    ],
  };
  const job = await run({ task: "scenario: echo", repo_url: remote.path, options });
  expect(job).toMatchObject({ status: "succeeded", model: expect.stringContaining("opus") });
  expect(job.options).toEqual({
    ...options,
    branch: null,
    title: null,
    plan: null,
    must_pass: null,
    setup_only: null,
    submodules: null,
    lfs: null,
    checks: null,
    deliver_only: null,
    files: ["log.txt", "shot.bin"],
  });
  const directory = join(String(job.worktree_path), ".svc", "in");
  const said = JSON.parse(String(job.output)) as Record<string, unknown>;
  expect(said).toMatchObject({ model: "opus", maxTurns: expect.anything() });
  expect(Number(said["maxTurns"])).toBe(7);
  for (const name of ["log.txt", "shot.bin"]) expect(said["prompt"]).toContain(join(directory, name));
  expect(await readFile(join(directory, "log.txt"), "utf8")).toBe("12:00 — failed");
  expect(await readFile(join(directory, "shot.bin"))).toEqual(image);
  // Nothing of it gets into the repository.
  expect(job.diff_stat?.files ?? 0).toBe(0);
});

test.each([
  [{ max_turns: 81 }, /options\.max_turns: 81 is more than the 80 that the profile code allows/],
  [{ timeout_seconds: 4000 }, /options\.timeout_seconds: 4000 is more than the 3600/],
  [{ branch: "a..b" }, /"a\.\.b" is not a name/],
  [{ model: "--help" }, /options\.model: must be/],
  [{ files: [{ name: "../x", content: "" }] }, /options\.files\.0\.name: must be a plain file name/],
  [{ files: [{ name: "ü".repeat(128), content: "" }] }, /at most 255 bytes/],
  [{ files: [{ name: "x", content: "é", encoding: "base64" as const }] }, /must be base64/],
  [{ files: ["a", "a"].map((name) => ({ name, content: "x" })) }, /different name/],
  [{ title: "two\nlines" }, /options\.title: must be one line/],
])("%j is refused at once, with what is allowed", async (options, message) => {
  await expect(asks(service).submit({ task: "x", options })).rejects.toThrow(message);
});

test("the branch is the one that was asked for, and one that exists is refused before the agent starts", async () => {
  const remote = await makeRemote();
  const own = await run({ task: "Do it", repo_url: remote.path, options: { branch: "fix/dates" } });
  expect(own).toMatchObject({ status: "succeeded", branch: "fix/dates" });
  expect(await remote.branches()).toEqual(["fix/dates", "main"]);
  for (const branch of ["main", "fix", "main/x"]) {
    const job = await run({ task: "Do it", repo_url: remote.path, options: { branch } });
    expect(job).toMatchObject({ status: "failed", failure_reason: "worktree_failed", session_id: null });
    expect(job.error).toContain(`The branch "${branch}" cannot be made`);
  }
  const resumed = { task: "More", session_id: String(own.session_id), options: { branch: "other" } };
  await expect(asks(service).submit(resumed)).rejects.toThrow(/options\.branch: .* branch fix\/dates/);
});
