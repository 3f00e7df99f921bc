import { existsSync } from "node:fs";
import { chmod, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  addTo,
  fetchInto,
  makePlace,
  makeRemote,
  makeWorktree,
  never,
  plainGit,
  read,
  write,
  type Place,
} from "./repos.fixture.ts";

/** Two instances on two hosts: a worktree root each, one root of cached clones on a file system that both see. */
const twoHosts = async () => {
  const a = await makeWorktree();
  const b = await makePlace({ podName: "other", reposRoot: a.settings.reposRoot });
  return { a, b, repo: a.repo, onA: a.worktree };
};

/** The pod of the fixture is lost; the other takes its worktree over. */
const takenOver = async () => {
  const hosts = await twoHosts();
  const { a, b, repo, onA } = hosts;
  await write(onA.path, { "committed.txt": "1\n" });
  await a.repos.commitAll(onA, "work", never);
  await write(onA.path, { "file.txt": "not committed\n", "staged.txt": "staged\n" });
  await plainGit(onA.path, "add", "staged.txt");
  await write(onA.path, { "staged.txt": "changed since\n" });
  return { ...hosts, onB: await addTo(b.repos, repo, "one") };
};

const heads = (gitDir: string, ...refs: string[]): Promise<string> => plainGit(gitDir, "rev-parse", ...refs);

const administrative = (place: Pick<Place, "settings">, key: string): Promise<string[]> =>
  readdir(join(place.settings.reposRoot, key, "repo.git", "worktrees"));

test("a worktree of a lost instance is made at our path from its branch, and verified as any other", async () => {
  const { b, onB, onA, repo } = await takenOver();
  expect(onB.path).toBe(join(b.settings.worktreeRoot, "one"));
  expect(onB).toMatchObject({ branch: "service/one", baseSha: onA.baseSha });
  expect(await read(onB.path, "committed.txt")).toBe("1\n");
  expect(await plainGit(onB.path, "status", "--short", "--branch")).toBe("## service/one");
  await write(onB.path, { "more.txt": "2\n" });
  const tip = await b.repos.commitAll(onB, "on the other", never);
  expect(await heads(repo.gitDir, "service/one")).toBe(tip);
  expect(await b.repos.findWorktree("one")).toEqual(onB);
  expect(await addTo(b.repos, repo, "one")).toEqual(onB);
});

test("what the lost instance's agent still commits moves no branch, and the index of the new worktree stays as it is", async () => {
  const { b, onA, onB, repo } = await takenOver();
  const tip = await heads(repo.gitDir, "service/one");
  await plainGit(onA.path, "commit", "--quiet", "--all", "--message", "by an agent that nobody waits for");
  expect(await heads(repo.gitDir, "service/one")).toBe(tip);
  expect(await plainGit(onB.path, "status", "--short", "--branch")).toBe("## service/one");
  expect(await b.repos.inspect(onB, never)).toMatchObject({ dirty: false });
});

test("an instance whose worktree was taken over neither commits to the branch, nor pushes, nor puts it back", async () => {
  const { a, onA, b, onB, repo } = await takenOver();
  await write(onB.path, { "more.txt": "2\n" });
  const tip = await b.repos.commitAll(onB, "on the other", never);
  const refusal = "The instance other has taken the worktree one over";
  await expect(a.repos.commitAll(onA, "late", never)).rejects.toThrow(refusal);
  await expect(a.repos.push(onA, never)).rejects.toThrow(refusal);
  await expect(a.repos.discardChanges(onA, null, never)).rejects.toThrow(refusal);
  expect(await heads(repo.gitDir, "service/one")).toBe(tip);
  expect(await read(onA.path, "file.txt")).toBe("not committed\n");
});

test("what is left on the lost instance is saved under a ref of its own, and removed without touching the other's", async () => {
  const { a, b, onA, onB, repo } = await takenOver();
  await write(onB.path, { "theirs.txt": "b\n" });
  expect(await b.repos.salvage(onB, "one", never)).toBe("refs/service/salvage/one");
  const theirs = await heads(repo.gitDir, "refs/service/salvage/one");
  expect(await a.repos.surveyWorktree("one")).toMatchObject({ isTaken: true, instance: "pod" });
  const ref = "refs/service/salvage/one-pod";
  expect(await a.repos.salvage(onA, "one", never)).toBe(ref);
  expect(await plainGit(repo.gitDir, "show", `${ref}:file.txt`)).toBe("not committed");
  expect(await plainGit(repo.gitDir, "show", `${ref}:committed.txt`)).toBe("1");
  const staged = await plainGit(repo.gitDir, "log", "--format=%H", "--grep=staged", ref);
  expect(await plainGit(repo.gitDir, "show", `${staged}:staged.txt`)).toBe("staged");
  expect(await heads(repo.gitDir, "refs/service/salvage/one")).toBe(theirs);
  await a.repos.removeWorktree(onA, never);
  expect(await a.repos.listWorktreeIds()).toEqual([]);
  expect(existsSync(onA.path)).toBe(false);
  expect(await administrative(a, repo.key)).toEqual(["one1"]);
  expect(await plainGit(onB.path, "status", "--short", "--branch")).toBe("## service/one\n?? theirs.txt");
  await b.repos.removeWorktree(onB, never);
  expect(await administrative(a, repo.key)).toEqual([]);
});

test("nothing is saved of a worktree in which nobody had worked, and its branch stays with the other", async () => {
  const { a, b, onA, repo } = await twoHosts();
  const onB = await addTo(b.repos, repo, "one");
  expect(await a.repos.salvage(onA, "one", never)).toBeNull();
  await a.repos.removeWorktree(onA, never);
  expect(await plainGit(onB.path, "status", "--short", "--branch")).toBe("## service/one");
  await b.repos.removeWorktree(onB, never);
  expect(await plainGit(repo.gitDir, "for-each-ref", "refs/heads")).toBe("");
});

test("a worktree that comes back to the instance that lost it is made anew from the branch; what was left of it is saved", async () => {
  const { a, b, onA, onB, repo } = await takenOver();
  await write(onB.path, { "more.txt": "2\n" });
  const tip = await b.repos.commitAll(onB, "on the other", never);
  const again = await addTo(a.repos, repo, "one");
  expect(again.path).toBe(onA.path);
  expect(await heads(again.path, "HEAD")).toBe(tip);
  expect(await plainGit(again.path, "status", "--short", "--branch")).toBe("## service/one");
  expect(await plainGit(repo.gitDir, "show", "refs/service/salvage/one-pod:file.txt")).toBe("not committed");
  expect(await a.repos.surveyWorktree("one")).toMatchObject({ isTaken: false });
  expect(await b.repos.surveyWorktree("one")).toMatchObject({ isTaken: true });
  await expect(b.repos.commitAll(onB, "late", never)).rejects.toThrow("The instance pod has taken");
});

test("a directory whose administrative directory is gone and its name another's is saved by its base, and the other's stays", async () => {
  const { a, b, onA, repo } = await twoHosts();
  await write(onA.path, { "file.txt": "not committed\n" });
  await rm(onA.gitDir, { recursive: true });
  const onB = await addTo(b.repos, repo, "one");
  expect(onB.gitDir).toBe(onA.gitDir);
  const ref = "refs/service/salvage/one-pod";
  expect(await a.repos.salvage(onA, "one", never)).toBe(ref);
  expect(await heads(repo.gitDir, `${ref}^`)).toBe(onA.baseSha);
  await a.repos.removeWorktree(onA, never);
  expect(await administrative(a, repo.key)).toEqual(["one"]);
  expect(await plainGit(onB.path, "status", "--short", "--branch")).toBe("## service/one");
});

test("half a worktree that a crash left here is not in the way, with another's beside it", async () => {
  const { b, onB, repo } = await takenOver();
  const marker = join(b.settings.worktreeRoot, ".owned/one.json");
  await writeFile(marker, (await read(marker)).replace('"ready": true', '"ready": false'));
  await rm(join(onB.gitDir, "service-instance"));
  const again = await addTo(b.repos, repo, "one");
  expect(await plainGit(again.path, "status", "--short", "--branch")).toBe("## service/one");
  expect((await administrative(b, repo.key)).toSorted()).toEqual(["one", "one1"]);
});

test("an empty repository's worktree of a lost instance is made anew too", async () => {
  const remote = await makeRemote(null);
  const a = await makePlace();
  const b = await makePlace({ podName: "other", reposRoot: a.settings.reposRoot });
  const repo = await fetchInto(a.repos, remote.url);
  const onA = await addTo(a.repos, repo, "one");
  await write(onA.path, { "file.txt": "1\n" });
  const onB = await addTo(b.repos, repo, "one");
  await write(onB.path, { "other.txt": "2\n" });
  await b.repos.commitAll(onB, "first", never);
  expect(await a.repos.salvage(onA, "one", never)).toBe("refs/service/salvage/one-pod");
  expect(await plainGit(repo.gitDir, "ls-tree", "--name-only", "refs/service/salvage/one-pod")).toBe(
    "file.txt",
  );
  await a.repos.removeWorktree(onA, never);
  expect(await plainGit(onB.path, "ls-files")).toBe("other.txt");
});

test("an instance that was given another name goes on with the worktrees on its disk", async () => {
  const made = await makeWorktree();
  const renamed = await makePlace({ ...made.settings, podName: "renamed" });
  expect(await addTo(renamed.repos, made.repo, "one")).toEqual(made.worktree);
  await write(made.worktree.path, { "file.txt": "1\n" });
  await renamed.repos.commitAll(made.worktree, "work", never);
  await renamed.repos.removeWorktree(made.worktree, never);
  expect(await administrative(made, made.repo.key)).toEqual([]);
});

test("a push that one instance notes while another fetches is not forgotten", async () => {
  const { a, b, onA, repo } = await twoHosts();
  await write(onA.path, { "file.txt": "1\n" });
  const tip = await a.repos.commitAll(onA, "work", never);
  const old = await heads(repo.gitDir, "origin/main");
  const note = "refs/service/pushed/service";
  await plainGit(repo.gitDir, "update-ref", `${note}/old`, old);
  await plainGit(repo.gitDir, "update-ref", `${note}/one`, old);
  // As git does for each fetch: here the other instance pushes, after the remote has told its branches.
  const real = process.env["PATH"];
  const bin = join(b.root, "bin");
  const script = `#!/bin/sh\ncase " $* " in *" fetch "*) PATH="${real}" git --git-dir "${repo.gitDir}" update-ref ${note}/one ${tip};; esac\nPATH="${real}" exec git "$@"\n`;
  await write(bin, { git: script });
  await chmod(join(bin, "git"), 0o755);
  const slow = await makePlace(b.settings, { ...process.env, PATH: `${bin}:${real}` });
  await fetchInto(slow.repos, repo.url);
  expect(await plainGit(repo.gitDir, "for-each-ref", "--format=%(refname)", "refs/service/pushed")).toBe(
    `${note}/one`,
  );
});
