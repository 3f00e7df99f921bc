import { expect, test } from "vitest";
import { git, makeRemote } from "../remote.ts";
import { isSaved } from "./saved-work.ts";

test("a file counts as saved when only an earlier salvage, which the ref's tip leads to, has it", async () => {
  const { work } = await makeRemote({ "saved.txt": "" });
  const earlier = await git(work, "rev-parse", "HEAD");
  const tree = await git(work, "hash-object", "-t", "tree", "-w", "/dev/null");
  const own = await git(work, "commit-tree", "-m", "own", tree);
  const both = await git(work, "commit-tree", "-m", "both", "-p", own, "-p", earlier, tree);
  await git(work, "update-ref", "refs/service/salvage/one", both);
  expect(await git(work, "ls-tree", "--name-only", both)).toBe("");
  expect(await isSaved(work, "refs/service/salvage/one", "saved.txt")).toBe(true);
  expect(await isSaved(work, "refs/service/salvage/one", "other.txt")).toBe(false);
});
