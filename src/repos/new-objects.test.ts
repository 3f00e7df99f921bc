import { randomBytes } from "node:crypto";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { never, plainGit, write } from "./plain-git.fixture.ts";
import { makeWorktree } from "./repos.fixture.ts";

type Made = Awaited<ReturnType<typeof makeWorktree>>;

/** Each new object by where it is, as its pieces make it. */
const readAll = async ({ repos, worktree }: Made, tip: string, maxBytes = 1e9) => {
  const found = new Map<string, string>();
  let last = "";
  const read = (piece: string, where: string, isFirst: boolean): void => {
    // Two objects may be at one place: of two commits.
    if (isFirst) last = found.has(where) ? `${where} again` : where;
    found.set(last, isFirst ? piece : found.get(last) + piece);
  };
  await repos.readNewObjects(worktree, { tip, maxBytes, read }, never);
  return found;
};

test("the new objects of a commit are read with their place, byte by byte, and none that the remote has", async () => {
  const made = await makeWorktree({ "README.md": "theirs\n" });
  const { path } = made.worktree;
  const bytes = randomBytes(300_000);
  await write(path, { "d/ä b.txt": "\0one\n\nsha blob 3\n", empty: "", "README.md": "changed\n" });
  await write(path, { "d/large.bin": bytes.toString("base64") });
  await made.repos.commitAll(made.worktree, "the first", never);
  await symlink("to/nowhere", join(path, "d/link"));
  const tip = await made.repos.commitAll(made.worktree, "the second", never);
  const found = await readAll(made, tip);
  const first = await plainGit(path, "rev-parse", `${tip}^`);
  expect([...found.keys()].toSorted()).toEqual(
    [
      `the commit ${first}`,
      `the commit ${tip}`,
      "README.md",
      "d/large.bin",
      "d/link",
      "d/ä b.txt",
      "empty",
      "the name of a file in /",
      "the name of a file in / again",
      "the name of a file in /d",
      "the name of a file in /d again",
    ].toSorted(),
  );
  const text = (where: string): string => Buffer.from(found.get(where) ?? "", "latin1").toString();
  expect(text("d/large.bin")).toBe(`${bytes.toString("base64")}\n`);
  expect(text("d/ä b.txt")).toBe("\0one\n\nsha blob 3\n\n");
  expect(text("d/link")).toBe("to/nowhere\n");
  expect(text("empty")).toBe("\n");
  expect(text(`the commit ${tip}`)).toContain("\n\nthe second");
  expect(text("the name of a file in /d")).toContain("ä b.txt\0");
  expect(await readAll(made, String(made.worktree.baseSha))).toEqual(new Map());
});

test("more new objects than are read are refused, however small each is, and what a reader throws ends it", async () => {
  const made = await makeWorktree();
  const files = Object.fromEntries(Array.from({ length: 20 }, (_, nth) => [`${nth}`, `${nth}`.repeat(500)]));
  await write(made.worktree.path, files);
  const tip = await made.repos.commitAll(made.worktree, "many", never);
  await expect(readAll(made, tip, 8000)).rejects.toMatchObject({
    reason: "push_failed",
    message: expect.stringMatching(/^Nothing was pushed, because .* new objects.*\nWhat to do: /) as string,
  });
  const stop = new Error("found");
  const read = (): void => {
    throw stop;
  };
  const reading = made.repos.readNewObjects(made.worktree, { tip, maxBytes: 1e9, read }, never);
  await expect(reading).rejects.toThrow("found");
});
