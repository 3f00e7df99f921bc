import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { never } from "./plain-git.fixture.ts";
import { makeRepos } from "./repos.fixture.ts";
import { selfTest } from "./self-test.ts";

test("a suitable machine has no problems", async () => {
  const { settings } = await makeRepos();
  expect(await selfTest({ settings, env: process.env, signal: never })).toEqual([]);
});

test("a missing git, an old git and unusable roots are each reported", async () => {
  const { settings, root } = await makeRepos();
  const bin = await temporaryDirectory();
  await writeFile(join(root, "file"), "");
  const broken = { reposRoot: join(root, "file/repos"), worktreeRoot: join(root, "file/worktrees") };
  expect(await selfTest({ settings: broken, env: { PATH: bin }, signal: never })).toEqual([
    expect.stringContaining("git could not be started"),
    expect.stringContaining("SERVICE_REPOS_ROOT"),
    expect.stringContaining("SERVICE_WORKTREE_ROOT"),
  ]);
  await writeFile(join(bin, "git"), "#!/bin/sh\necho git version 2.20.1\n");
  await chmod(join(bin, "git"), 0o755);
  expect(await selfTest({ settings, env: { PATH: `${bin}:/bin` }, signal: never })).toEqual([
    "git 2.36 or later is needed; found: git version 2.20.1.",
  ]);
});
