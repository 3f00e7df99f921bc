import { symlink } from "node:fs/promises";
import { expect, test } from "vitest";
import { never, plainGit, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRemote, makeRepos } from "./repos.fixture.ts";

const cipher = "\0GITCRYPT\0\u0001\u0002";
const base64 = "U2FsdGVkX18aGVsbG8=\n";

/** A worktree of a repository with these attributes and files. */
const filtered = async (attributes: string, files: Record<string, string>) => {
  const remote = await makeRemote({ ".gitattributes": attributes, ...files });
  const { repos } = await makeRepos();
  const worktree = await addTo(repos, await fetchInto(repos, remote.url), "one");
  const commit = async (changes: Record<string, string | null>): Promise<void> => {
    await write(worktree.path, changes);
    await repos.commitAll(worktree, "work", never);
  };
  const push = () => repos.push(worktree, never);
  return { remote, worktree, commit, push };
};

test.each([
  [
    "git-crypt",
    "secrets/** filter=git-crypt diff=git-crypt\n",
    "secrets/new.yml",
    { "secrets/a.yml": cipher },
  ],
  [
    "a key of git-crypt by a macro",
    "[attr]ops filter=git-crypt-ops\n*.key ops\n",
    "ops.key",
    { "a.key": cipher },
  ],
  ["transcrypt", "sensitive/* filter=crypt\n", "sensitive/token", { "sensitive/a": base64 }],
  ["an unknown one, whose files are no text", "*.enc filter=ours\n", "b.enc", { "a.enc": "\0\u0003x" }],
  [
    "an unknown one, with an empty file and rules of its own",
    "",
    "vault/b",
    { "vault/.gitattributes": "* filter=ours\n", "vault/a": "\0\u0003x", "vault/empty": "" },
  ],
])("plain text under a filter that encrypts is not pushed: %s", async (_, attributes, path, files) => {
  const { remote, worktree, commit, push } = await filtered(attributes, files);
  expect(worktree.warnings.join()).toContain("Filters of .gitattributes do not run here");
  // The agent switches the filter off, too, and takes the file away again.
  await commit({ [path]: "password: hunter2\n" });
  await commit({ ".gitattributes": "", [path]: null });
  await expect(push()).rejects.toMatchObject({
    reason: "push_failed",
    message: expect.stringContaining(path) as unknown,
  });
  expect(await plainGit(remote.url, "branch", "--list", "service/*")).toBe("");
});

test.for<[string, Record<string, string | null>, string]>([
  ["a moved file", { "config/db.yml": null, "vault/db.yml": "password: hunter2\n" }, "vault/db.yml"],
  ["a copy of what the base has", { "vault/copy": "password: hunter2\n" }, "vault/copy"],
  ["one content at two paths", { "docs/a": "the same\n", "vault/z": "the same\n" }, "vault/z"],
])("plain text that is known elsewhere is not pushed either: %s", async ([, changes, path]) => {
  // The filter is known by its own files, however many files other filters have.
  const attributes = "analysis/** filter=nbstripout\nvault/** filter=ours\n";
  const many = (top: string, text: string) =>
    Object.fromEntries(Array.from({ length: 101 }, (_, nth) => [`${top}${nth}`, text]));
  const { remote, commit, push } = await filtered(attributes, {
    ...many("analysis/", "{}\n"),
    ...many("vault/.keep", ""),
    "config/db.yml": "password: hunter2\n",
    "vault/a": "\0\u0003x",
  });
  await commit(changes);
  await commit({ [path]: null });
  await expect(push()).rejects.toThrow(
    `plain text in the job's commits, and its filter does not run here: ${path} (`,
  );
  expect(await plainGit(remote.url, "branch", "--list", "service/*")).toBe("");
});

test("what is stored as before, and other files of such a repository, are pushed without a word", async () => {
  const attributes = "secrets/** filter=git-crypt\nsensitive/* filter=crypt\n*.bin filter=lfs\n-x -filter\n";
  const { worktree, commit, push } = await filtered(attributes, {
    "secrets/a": cipher,
    "sensitive/a": base64,
  });
  await plainGit(worktree.path, "mv", "secrets/a", "secrets/b");
  await symlink("../README.md", `${worktree.path}/secrets/link`);
  await commit({
    "sensitive/b": `${base64}more`,
    "README.md": "plain\n",
    "secrets/empty": "",
    "a.bin": "pointer",
  });
  expect(await push()).toEqual({ isPushed: true, warnings: [] });
});

test("another filter that did not run is a warning that names the files", async () => {
  const { commit, push } = await filtered("*.ipynb filter=nbstripout\n", { "a.ipynb": "{}\n" });
  await commit({ "a.ipynb": '{"outputs": [1]}\n', "sub dir/b.ipynb": "{}\n\n" });
  const { isPushed, warnings } = await push();
  expect(isPushed).toBe(true);
  expect(warnings.join()).toMatch(
    /did not run on .*a\.ipynb \(filter nbstripout\), sub dir\/b\.ipynb \(filter/,
  );
});
