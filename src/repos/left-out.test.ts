import { appendFile, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { commitFile, never, plainGit, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRemote, makeWorktree } from "./repos.fixture.ts";
import type { Repos, Worktree } from "./repos.ts";

/** Whatever is written from now on is the agent's: file times are as exact as the kernel's clock. */
const beginWork = async (repos: Repos, worktree: Worktree): Promise<void> => {
  await repos.markAgentWork(worktree);
  const began = Date.now();
  await until(async () => Date.now() - began > 20 || null);
};

/** What a commit would bring, and which work it would lack. */
const look = async (repos: Repos, worktree: Worktree) => {
  const { dirty, paths, kept } = await repos.inspect(worktree, never);
  return { dirty, paths, kept, ignored: (await repos.ignoredWork(worktree, never)).toSorted() };
};
const nothing = { dirty: false, paths: [], kept: [], ignored: [] };

test("files that the agent's CLI keeps for itself are in no commit and in no warning", async () => {
  const { repos, worktree } = await makeWorktree();
  await beginWork(repos, worktree);
  await write(worktree.path, {
    ".claude/scheduled_tasks.json": "{}\n",
    ".claude/agent-memory-local/notes.md": "notes\n",
    "packages/app/.claude/routines/.state/x": "1\n",
    ".claude/first-run": "1\n",
  });
  expect(await look(repos, worktree)).toEqual(nothing);
  // The agent's own git leaves them out from the beginning.
  await write(worktree.path, { ".claude/settings.json": "{}\n", "fix.txt": "1\n" });
  await plainGit(worktree.path, "add", "--all");
  const staged = await plainGit(worktree.path, "diff", "--cached", "--name-only");
  expect(staged).toBe(".claude/settings.json\nfix.txt");
  expect((await look(repos, worktree)).paths).toEqual([".claude/settings.json", "fix.txt"]);
  expect(await repos.commitAll(worktree, "work", never)).not.toBe("");
  expect(await look(repos, worktree)).toMatchObject({ dirty: false, ignored: [] });
});

test("the same where a .gitignore makes exceptions; what is tracked of them may change and go", async () => {
  const { repos, worktree } = await makeWorktree({
    ".gitignore": "*\n!*/\n!*.md\n!*.json\n!.gitignore\n",
    ".claude/checkpoints/a.md": "1\n",
    ".claude/checkpoints/b.md": "1\n",
  });
  const { path } = worktree;
  await beginWork(repos, worktree);
  await write(path, {
    ".claude/agent-memory-local/notes.md": "notes\n",
    "packages/app/.claude/scheduled_tasks.json": "{}\n",
    ".claude/agent-registry.json": "{}\n",
  });
  await plainGit(path, "add", "--all");
  expect(await look(repos, worktree)).toEqual(nothing);
  await write(path, { ".claude/checkpoints/a.md": "2\n", ".claude/settings.json": "{}\n" });
  await rm(join(path, ".claude/checkpoints/b.md"));
  await repos.commitAll(worktree, "work", never);
  const changed = await plainGit(path, "show", "--name-status", "--format=", "HEAD");
  expect(changed).toBe("M\t.claude/checkpoints/a.md\nD\t.claude/checkpoints/b.md\nA\t.claude/settings.json");
});

test("what the agent's own commits have of them goes, and what others have committed stays", async () => {
  const { repos, remote, repo, worktree } = await makeWorktree({
    ".gitignore": "*\n!*/\n!*.json\n!.gitignore\n",
  });
  const { path } = worktree;
  const theirs = { ".claude/first-run/x.json": "1\n", ".claude/worktrees/a.json": "{}\n" };
  await remote.commit(theirs);
  await fetchInto(repos, repo.url);
  await plainGit(path, "fetch", "--quiet", remote.url, "main");
  await plainGit(path, "merge", "--quiet", "--ff-only", "FETCH_HEAD");
  const files = [
    ".claude/checkpoints/b.json",
    ".claude/scheduled_tasks.json",
    "é/.claude/agent-registry.json",
  ];
  await write(path, Object.fromEntries([...files, ".claude/settings.json"].map((name) => [name, "{}\n"])));
  await plainGit(path, "add", "--force", "--all");
  await plainGit(path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message=mine");
  await write(path, { ".claude/mailbox/new.json": "{}\n" });
  const { paths } = await repos.inspect(worktree, never);
  expect(paths.toSorted()).toEqual([...Object.keys(theirs), ".claude/settings.json"].toSorted());
  const tip = await repos.commitAll(worktree, "work", never);
  const gone = await plainGit(path, "-c", "core.quotePath=false", "show", "--name-status", "--format=", tip);
  expect(gone).toBe(files.map((name) => `D\t${name}`).join("\n"));
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false, kept: [] });
});

test("what the agent's info/exclude hides is left out and named, also after a commit of the service", async () => {
  const { repos, repo, worktree } = await makeWorktree();
  await beginWork(repos, worktree);
  await appendFile(join(worktree.gitDir, "info/exclude"), "# a tool\n/.tool-state/\nünter*\n");
  await write(worktree.path, { ".tool-state/db": "1\n", "ünter.txt": "1\n", "fix.txt": "1\n" });
  expect(await look(repos, worktree)).toEqual({
    dirty: true,
    paths: ["fix.txt"],
    kept: [],
    ignored: [".tool-state/db", "ünter.txt"],
  });
  await repos.commitAll(worktree, "work", never);
  await addTo(repos, repo, "one");
  expect(await look(repos, worktree)).toMatchObject({ dirty: false, paths: ["fix.txt"] });
});

test("so are kinds that tools make, which no rule of the repository names, but not what was there before", async () => {
  const { repos, worktree } = await makeWorktree({ ".gitignore": "build/\n*.pyc\n" });
  await appendFile(join(worktree.gitDir, "info/exclude"), "dist/\n*.log\n");
  await write(worktree.path, { "dist/before.js": "1\n" });
  await beginWork(repos, worktree);
  await write(worktree.path, { "dist/app.js": "1\n", "run.log": "1\n", "build/x": "1\n", "m.pyc": "1\n" });
  expect(await look(repos, worktree)).toEqual({ ...nothing, ignored: ["dist/app.js", "run.log"] });
  expect(await look(repos, worktree)).toEqual(nothing);
});

test("of very many files each is named once, and a later one too", async () => {
  const { repos, worktree } = await makeWorktree({ ".gitignore": "outputs/\n" });
  await beginWork(repos, worktree);
  const files = Array.from({ length: 1200 }, (_, nth) => [`outputs/${nth}.md`, "1\n"]);
  await write(worktree.path, Object.fromEntries(files));
  expect((await look(repos, worktree)).ignored).toHaveLength(1200);
  await until(async () => ((await look(repos, worktree)).ignored.length === 0 ? true : null));
  await write(worktree.path, { "outputs/later.md": "1\n" });
  expect(await look(repos, worktree)).toEqual({ ...nothing, ignored: ["outputs/later.md"] });
});

test("a committed file is not named, although it is left out of the worktree and a pattern lets it in", async () => {
  const rules = "*\n!*/\n!*.md\n!2024\n!.gitignore\n";
  const { repos, worktree } = await makeWorktree({ ".gitignore": rules, "gone.md": "1\n" });
  await beginWork(repos, worktree);
  await plainGit(worktree.path, "update-index", "--skip-worktree", "gone.md");
  await rm(join(worktree.path, "gone.md"));
  await write(worktree.path, { "new.md": "1\n", "2024": "1\n", "other.txt": "1\n" });
  const ignored = ["other.txt"];
  expect(await look(repos, worktree)).toEqual({ dirty: true, paths: ["2024", "new.md"], kept: [], ignored });
});

test("new work at ignored paths is named once; what tools make again and what was there is not", async () => {
  const { repos, worktree } = await makeWorktree({
    ".gitignore":
      "bin/\n.vite\ntest-results\n*.pid\noutputs/\nlib/\n*.local\nnode_modules\ntarget\n.venv\n*.log\n*.pyc\ncoverage\n.cache\nkept/\n",
  });
  const { path } = worktree;
  await write(path, { "kept/by-setup.txt": "1\n", "lib/setup.js": "1\n" });
  await beginWork(repos, worktree);
  await write(path, {
    "outputs/report.md": "# Report\n",
    "lib/core.js": "1\n",
    "a\nb.local": "1\n",
    "node_modules/x/index.js": "1\n",
    "sub/target/x": "1\n",
    ".venv/lib/x.py": "1\n",
    "run.log": "1\n",
    "m.pyc": "1\n",
    "coverage/index.html": "1\n",
    ".cache/x": "1\n",
    "bin/Debug/app.dll": "1\n",
    ".vite/x": "1\n",
    "test-results/x.txt": "1\n",
    "server.pid": "1\n",
  });
  const named = ["a?b.local", "lib/core.js", "outputs/report.md"];
  expect(await look(repos, worktree)).toEqual({ ...nothing, ignored: named });
  expect(await look(repos, worktree)).toEqual(nothing);
  const owned = await repos.readWorktree("one");
  const still = async () => (await repos.ignoredStill(worktree, owned?.ignored ?? [])).toSorted();
  expect(await still()).toEqual(named);
  await rm(join(path, "outputs"), { recursive: true });
  expect(await still()).toEqual(named.slice(0, 2));
  // What checks make is nobody's work.
  await write(path, { "outputs/of-a-check.txt": "1\n" });
  await beginWork(repos, worktree);
  expect(await look(repos, worktree)).toEqual(nothing);
});

test("uncommitted work in a worktree or clone of the agent's own at an ignored path is named, a clean one is not", async () => {
  const { repos, remote, worktree } = await makeWorktree({ ".gitignore": "work/\n", "a.txt": "1\n" });
  const { path } = worktree;
  await beginWork(repos, worktree);
  await plainGit(path, "worktree", "add", "--quiet", ".claude/worktrees/fix", "-b", "fix");
  await plainGit(path, "worktree", "add", "--quiet", "work/clean", "-b", "clean");
  await plainGit(path, "clone", "--quiet", remote.url, "work/clone");
  await plainGit(path, "clone", "--quiet", remote.url, "work/clean-clone");
  await mkdir(join(path, "work/empty"), { recursive: true });
  await plainGit(join(path, "work/empty"), "init", "--quiet");
  await write(path, {
    ".claude/worktrees/fix/new.txt": "1\n",
    "work/clone/a.txt": "2\n",
    "work/empty/first.txt": "1\n",
  });
  const named = [".claude/worktrees/fix", "work/clone", "work/empty"];
  expect(await look(repos, worktree)).toEqual({ ...nothing, ignored: named });
  // Committed work is saved with the branches, but not with those of a clone.
  await commitFile(join(path, "work/clean"), "done.txt");
  expect(await look(repos, worktree)).toEqual(nothing);
  await commitFile(join(path, "work/clean-clone"), "done.txt");
  expect(await look(repos, worktree)).toEqual({ ...nothing, ignored: ["work/clean-clone"] });
});

test("a clone of something else is not named as long as nothing is added to it; a deletion alone is work", async () => {
  const { repos, worktree } = await makeWorktree({ ".gitignore": "work/\n" });
  const other = await makeRemote({ "tool.dos": "1\r\n", "b.txt": "1\n" });
  // Line ends that git reads otherwise than it wrote them are nobody's work.
  await writeFile(join(other.work, ".gitattributes"), "*.dos text\n");
  await plainGit(other.work, "add", ".gitattributes");
  await plainGit(other.work, "commit", "--quiet", "--message", "rules");
  await plainGit(other.work, "push", "--quiet", other.url, "HEAD:refs/heads/main");
  const { path } = worktree;
  await beginWork(repos, worktree);
  for (const name of ["tool", "gone", "done"])
    await plainGit(path, "clone", "--quiet", other.url, `work/${name}`);
  expect(await look(repos, worktree)).toEqual(nothing);
  await beginWork(repos, worktree);
  await rm(join(path, "work/gone/b.txt"));
  await plainGit(path, "-C", "work/done", "config", "user.name", "a");
  await plainGit(path, "-C", "work/done", "config", "user.email", "a@b");
  await plainGit(path, "-C", "work/done", "rm", "--quiet", "b.txt");
  await plainGit(path, "-C", "work/done", "commit", "--quiet", "--message", "gone");
  expect(await look(repos, worktree)).toEqual({ ...nothing, ignored: ["work/done", "work/gone"] });
});
