import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createKeptFiles, giveFiles, NotExchanged } from "./kept-files.ts";

const jobId = randomUUID();
const name = ".svc/out";

/** A worktree in which a shell command has run. */
const left = async (command: string, limits?: { bytes: number; files: number }) => {
  const worktree = await temporaryDirectory();
  execFileSync("/bin/bash", ["-ec", command], { cwd: worktree });
  const root = join(await temporaryDirectory(), "out");
  const kept = createKeptFiles(root, limits);
  return { kept, root, worktree, keep: () => kept.keep(jobId, { worktree, name }) };
};

test("files are kept by path, with their bytes, and are removed with the job", async () => {
  const { kept, root, worktree, keep } = await left(
    `mkdir -p .svc/out/plots; printf %s "a'b" > .svc/out/plots/ä.txt; : > .svc/out/empty; printf '\\0\\377' > .svc/out/.b`,
  );
  expect(await keep()).toEqual({
    files: [
      { path: ".b", bytes: 2 },
      { path: "empty", bytes: 0 },
      { path: "plots/ä.txt", bytes: 3 },
    ],
    warnings: [],
  });
  const found = await kept.open(jobId, "plots/ä.txt");
  expect(found?.bytes).toBe(3);
  expect(Buffer.concat(await Array.fromAsync(found!.read())).toString()).toBe("a'b");
  expect([...(await readFile(join(root, jobId, ".b")))]).toEqual([0, 255]);
  expect(await kept.open(jobId, "plots")).toBeNull();
  // Kept again: what is gone meanwhile is not.
  execFileSync("/bin/rm", ["-r", join(worktree, ".svc/out/plots")]);
  expect((await keep()).files.map(({ path }) => path)).toEqual([".b", "empty"]);
  await kept.remove(jobId);
  expect(await readdir(root)).toEqual([]);
});

test("what was kept before stays when the directory cannot be read any more", async () => {
  const { kept, root, worktree, keep } = await left("mkdir -p .svc/out; echo one > .svc/out/a");
  await keep();
  execFileSync("/bin/bash", ["-ec", "rm -r .svc/out; ln -s /etc .svc/out"], { cwd: worktree });
  await expect(keep()).rejects.toThrow(NotExchanged);
  expect((await kept.open(jobId, "a"))?.bytes).toBe(4);
  await kept.remove(jobId);
  expect(await readdir(root)).toEqual([]);
});

test("a worktree without the directory leaves nothing", async () => {
  expect(await (await left("true")).keep()).toEqual({ files: [], warnings: [] });
  expect(await (await left("mkdir -p .svc/out")).keep()).toEqual({ files: [], warnings: [] });
});

test("links, pipes and names that are no text are named, and not followed", async () => {
  const { keep } = await left(
    `mkdir -p .svc/out; cd .svc/out; echo x > good; ln -s /etc/passwd file; ln -s /etc directory; mkfifo pipe; : > $'\\xff'; ln -s good $'two\\nlines'`,
  );
  const { files, warnings } = await keep();
  expect(files).toEqual([{ path: "good", bytes: 2 }]);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/^Not kept of \.svc\/out, because it is no file, or no plain path: /);
  for (const path of ["file", "directory", "pipe", "\uFFFD", "two?lines"])
    expect(warnings[0]).toContain(path);
});

test("what is over the limits is named; what fits after it is kept", async () => {
  const command =
    "mkdir -p .svc/out; cd .svc/out; head -c 6 /dev/zero > a; head -c 6 /dev/zero > b; echo x > c";
  const byBytes = await (await left(command, { bytes: 10, files: 9 })).keep();
  expect(byBytes.files.map(({ path }) => path)).toEqual(["a", "c"]);
  expect(byBytes.warnings).toEqual([expect.stringMatching(/because it has more than .*: b$/)]);
  const byFiles = await (await left(command, { bytes: 100, files: 2 })).keep();
  expect(byFiles.files.map(({ path }) => path)).toEqual(["a", "b"]);
  expect(byFiles.warnings).toEqual([expect.stringMatching(/ 2 files: c$/)]);
  const many = await (await left("mkdir -p .svc/out/d; cd .svc/out/d; seq 10100 | xargs touch")).keep();
  expect(many.files).toHaveLength(1000);
  expect(many.warnings.at(-1)).toContain("more than 10000 entries");
});

test.each([
  ["mkdir .svc; ln -s /etc .svc/out", ".svc/out"],
  ["mkdir -p elsewhere/out; ln -s elsewhere .svc", ".svc"],
  ["mkdir .svc; echo x > .svc/out", ".svc/out"],
])("%s: nothing is kept, and the path is named", async (command, path) => {
  const { keep, worktree } = await left(command);
  const failure = await keep().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(NotExchanged);
  expect(String(failure)).toContain(`${join(worktree, path)} is a link`);
});

test("a link in what is kept is not opened", async () => {
  const { kept, root, keep } = await left("mkdir -p .svc/out; echo x > .svc/out/a");
  await keep();
  await symlink("/etc/passwd", join(root, jobId, "b"));
  expect(await kept.open(jobId, "b")).toBeNull();
});

test.each([
  ["a link in place of .svc", 'ln -s "$PWD/../elsewhere" .svc', /\.svc is a link/],
  ["a link in place of .svc/in", 'mkdir .svc; ln -s "$PWD/../elsewhere" .svc/in', /\.svc\/in is a link/],
  ["a directory in place of a file", "mkdir -p .svc/in/a.txt/b", /\.svc\/in\/a\.txt cannot be replaced/],
])("files are given into no other place: %s", async (_, command, message) => {
  const top = await temporaryDirectory();
  const worktree = join(top, "worktree");
  execFileSync("/bin/bash", ["-ec", `mkdir elsewhere worktree; cd worktree; ${command}`], { cwd: top });
  const giving = giveFiles([{ name: "a.txt", bytes: Buffer.from("x") }], { worktree, name: ".svc/in" });
  await expect(giving).rejects.toThrow(message);
  await expect(giving).rejects.toBeInstanceOf(NotExchanged);
  expect(await readdir(join(top, "elsewhere"))).toEqual([]);
});

test("a given file takes the place of a link of its name, and what the link leads to stays", async () => {
  const { worktree } = await left("mkdir -p .svc/in; echo old > other; ln -s ../../other .svc/in/a.txt");
  await giveFiles([{ name: "a.txt", bytes: Buffer.from("new") }], { worktree, name: ".svc/in" });
  expect(await readFile(join(worktree, "other"), "utf8")).toBe("old\n");
  expect(await readFile(join(worktree, ".svc/in/a.txt"), "utf8")).toBe("new");
  expect(await readdir(join(worktree, ".svc/in"))).toEqual(["a.txt"]);
});
