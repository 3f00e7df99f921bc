import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { noOptions } from "../contract/run-options.ts";
import { plainGit, read } from "../repos/plain-git.fixture.ts";
import { makeRemote } from "../repos/repos.fixture.ts";
import { claimJob } from "./runner.fixture.ts";

test.each([
  ["the profile", { submodules: true }, noOptions, true],
  ["its options", {}, { ...noOptions, submodules: true }, true],
  ["its options, against the profile", { submodules: true }, { ...noOptions, submodules: false }, false],
])("a job gets the submodules that %s asks for", async (...row) => {
  const [, profile, options, isThere] = row;
  const lib = await makeRemote({ "lib.txt": "lib\n" });
  const job = await claimJob("scenario: work", { profile: "ours", options });
  const profiles = join(job.home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  await writeFile(join(profiles, "ours.yml"), JSON.stringify({ extends: "code", ...profile }));
  const add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.url, "lib"];
  await plainGit(job.remote.work, ...add);
  await job.remote.commit({});
  const { kind, patch } = await job.execute();
  expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
  const { worktree_path, warnings } = await job.stored();
  const found = await read(String(worktree_path), "lib/lib.txt").catch(() => null);
  expect(found).toBe(isThere ? "lib\n" : null);
  expect(warnings.join().includes("svc run --submodules")).toBe(!isThere);
});
