import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { git, makeRemote } from "../../test/remote.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { savedWork } from "./saved-work.ts";

const ref = "refs/service/salvage/the-job";

/** Runs the command that is printed to look at saved work, as it is. */
const look = async (gitDir: string): Promise<string> => {
  const line = /look at it: +(.*)/.exec(savedWork({ ref, gitDir, id: "the-job" }))?.[1] ?? "";
  const env = { PATH: process.env["PATH"], HOME: "/nonexistent" };
  return (await promisify(execFile)("sh", ["-c", line], { cwd: "/", env })).stdout;
};

/** Saved work as the service keeps it, beside its bases, with a worktree in which a file can be committed or left. */
const makeClone = async () => {
  const remote = await makeRemote({ "base.txt": "the base\n" });
  const clone = join(await temporaryDirectory(), "it's a clone.git");
  await git(remote.work, "clone", "--quiet", "--bare", remote.path, clone);
  await git(clone, "update-ref", "refs/bases/main", "main");
  const work = join(await temporaryDirectory(), "work");
  await git(clone, "worktree", "add", "--quiet", "-b", "service/the-job", work, "main");
  const write = async (name: string): Promise<void> => {
    await writeFile(join(work, name), `in ${name}\n`);
    await git(work, "add", "--all");
  };
  const commit = async (name: string): Promise<void> => {
    await write(name);
    await git(work, "commit", "--quiet", `--message=Add ${name}`);
  };
  /** What is in the worktree, saved as a commit with these parents. */
  const save = async (...parents: string[]): Promise<string> => {
    const tree = await git(work, "write-tree");
    const saved = await git(
      work,
      "commit-tree",
      "-m",
      "Saved",
      ...parents.flatMap((name) => ["-p", name]),
      tree,
    );
    await git(clone, "update-ref", ref, saved);
    return saved;
  };
  return { clone, work, write, commit, save };
};

test("the command to look at saved work shows each commit beyond the base and what was not committed", async () => {
  const { clone, commit, write, save } = await makeClone();
  await commit("first.txt");
  await commit("second.txt");
  await write("loose.txt");
  await save("HEAD");
  const shown = await look(clone);
  for (const line of ["+in first.txt", "+in second.txt", "+in loose.txt"]) expect(shown).toContain(line);
  expect(shown).not.toContain("the base");
});

test("of saved work that joins another branch, and earlier saved work, it shows the files of each", async () => {
  const { clone, work, commit, write, save } = await makeClone();
  await commit("branch.txt");
  await write("earlier.txt");
  const earlier = await save("HEAD");
  await git(work, "reset", "--hard", "--quiet");
  await git(work, "switch", "--quiet", "--detach", "main");
  await commit("elsewhere.txt");
  await write("loose.txt");
  // Where the agent stood and its branch, then what was saved before: the two merges that salvage makes.
  const later = await save("HEAD", "service/the-job");
  await save(later, earlier);
  const shown = await look(clone);
  for (const name of ["branch", "earlier", "elsewhere", "loose"]) expect(shown).toContain(`+in ${name}.txt`);
  expect(shown).not.toContain("+the base");
});

test("it shows everything where there is no remote", async () => {
  const clone = join(await temporaryDirectory(), "alone.git");
  const { work, commit } = await makeClone();
  await commit("alone.txt");
  await git(work, "init", "--quiet", "--bare", clone);
  await git(work, "push", "--quiet", clone, `HEAD:${ref}`);
  expect(await look(clone)).toMatch(/\+in alone\.txt[^]*\+the base/);
});
