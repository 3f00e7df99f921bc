import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { addTo, fetchInto, makeRepos, makeRemote, plainGit } from "./repos.fixture.ts";

/** Makes the branch a commit of ten trees in each of ten trees and so on: 10^10 times the content of the innermost. */
const nest = async (url: string, branch: string, innermost: string): Promise<void> => {
  let tree = innermost;
  for (let level = 0; level < 10; level += 1) {
    const input = Array.from({ length: 10 }, (_, index) => `040000 tree ${tree}\td${index}\n`).join("");
    tree = spawnSync("git", ["mktree"], { cwd: url, input, encoding: "utf8" }).stdout.trim();
  }
  const who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
  const commit = await plainGit(url, ...who, "commit-tree", "-m", "x", tree);
  await plainGit(url, "update-ref", `refs/heads/${branch}`, commit);
};

test("a tree of 10^10 files, or empty directories, made of shared subtrees is refused before any of it is checked out", async () => {
  const { url } = await makeRemote();
  await nest(url, "empty", spawnSync("git", ["mktree"], { cwd: url, input: "" }).stdout.toString().trim());
  await nest(url, "main", await plainGit(url, "rev-parse", "main^{tree}"));
  const { repos, settings } = await makeRepos({ gitTimeout: 20, maxRepoFiles: 20_000 });
  const repo = await fetchInto(repos, url);
  for (const baseRef of ["main", "empty"]) {
    const before = process.memoryUsage.rss();
    await expect(addTo(repos, repo, "one", { baseRef })).rejects.toMatchObject({
      reason: "worktree_failed",
      retryable: false,
      message: `The repository ${url} has more than 20000 files and directories; raise SERVICE_MAX_REPO_FILES if it is to be checked out.`,
    });
    expect(process.memoryUsage.rss() - before).toBeLessThan(100_000_000);
    expect(existsSync(join(settings.worktreeRoot, "one"))).toBe(false);
  }
});

test("files with more bytes than a checkout may have are refused, also on the branch of a worktree that is made again", async () => {
  const remote = await makeRemote({ "large.txt": "0".repeat(2000) });
  const limited = await makeRepos({ maxRepoBytes: 1999 });
  const repo = await fetchInto(limited.repos, remote.url);
  const refusal = "has more than 1999 bytes of files; raise SERVICE_MAX_REPO_BYTES";
  await expect(addTo(limited.repos, repo, "one")).rejects.toThrow(refusal);
  await plainGit(repo.gitDir, "branch", "service/two", "origin/main");
  await expect(addTo(limited.repos, repo, "two")).rejects.toThrow(refusal);
  const { repos } = await makeRepos({ ...limited.settings, maxRepoBytes: 2000 });
  expect(existsSync(join((await addTo(repos, repo, "one")).path, "large.txt"))).toBe(true);
});
