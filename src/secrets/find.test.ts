import { execFile } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createFinder, filesWithSecret, findSecret } from "./find.ts";

const value = "s3cret/value+that is";

test.each([
  ["as it is", value],
  ["in JSON", JSON.stringify({ a: `${value}"` })],
  ["in a URL", `https://user:${encodeURIComponent(value)}@host`],
  ...["", "x", "xy"].map((before) => ["in base64", Buffer.from(`${before}${value}y`).toString("base64")]),
])("a value is found %s: %s", async (_how, text) => {
  const root = await temporaryDirectory();
  await mkdir(join(root, "a/b"), { recursive: true });
  await writeFile(join(root, "a/b/c"), `before ${text} after`);
  expect(await findSecret(root, [""], [value])).toBe("a/b/c");
  expect(await findSecret(root, ["a/b/c", "gone"], [value])).toBe("a/b/c");
  expect(await findSecret(root, ["gone"], [value])).toBeNull();
  expect(await findSecret(root, [""], ["another value"])).toBeNull();
  expect(await findSecret(root, [""], [])).toBeNull();
});

test("a value is found over the border of what is read at once, in names, and in names that are not UTF-8", async () => {
  const root = await temporaryDirectory();
  const mebibyte = 1024 * 1024;
  await writeFile(join(root, "large"), `${"-".repeat(2 * mebibyte - 5)}${value}${"-".repeat(mebibyte)}`);
  await writeFile(join(root, "near"), `${"-".repeat(2 * mebibyte)}${value.slice(1)}`);
  await writeFile(join(root, "token-abcdefgh"), "");
  await writeFile(Buffer.from(`${root}/\xff`, "latin1"), value);
  const all = await Array.fromAsync(filesWithSecret(root, [""], [value, "abcdefgh"]));
  const found = all.map(({ file }) => String(file));
  expect(found.toSorted()).toEqual(["large", "token-abcdefgh", "\uFFFD"]);
});

test("links to a value, and directories and pipes so named, are found", async () => {
  const root = await temporaryDirectory();
  await mkdir(join(root, "a", "is-abcdefgh", "below"), { recursive: true });
  await symlink("../abcdefgh", join(root, "a", "link"));
  await promisify(execFile)("mkfifo", [join(root, "abcdefgh.pipe")]);
  const all = await Array.fromAsync(filesWithSecret(root, [""], ["abcdefgh"]));
  const below = ["a/is-abcdefgh", "a/is-abcdefgh/below"];
  expect(all.map(({ file }) => String(file)).toSorted()).toEqual([...below, "a/link", "abcdefgh.pipe"]);
});

test("links are not followed", async () => {
  const root = await temporaryDirectory();
  const outside = await temporaryDirectory();
  await writeFile(join(outside, "file"), value);
  await symlink(outside, join(root, "directory"));
  await symlink(join(outside, "file"), join(root, "file"));
  expect(await findSecret(root, [""], [value])).toBeNull();
  expect(await findSecret(root, ["directory", "file"], [value])).toBeNull();
});

test("what cannot be read is not passed over", async () => {
  const root = await temporaryDirectory();
  await expect(findSecret(root, ["x".repeat(300)], [value])).rejects.toThrow(
    "cannot be searched for secrets (ENAMETOOLONG)",
  );
});

test("a value is found wherever the pieces of a text end", () => {
  const text = `${"-".repeat(20)}${value}${"-".repeat(20)}`;
  const missed: string[][] = [];
  for (let one = 1; one < text.length; one += 1)
    for (let other = one; other < text.length; other += 1) {
      const has = createFinder([value]);
      const pieces = ["", text.slice(0, one), text.slice(one, other), text.slice(other)];
      if (!pieces.map((piece, nth) => has(piece, nth === 0)).some(Boolean)) missed.push(pieces);
    }
  expect(missed).toEqual([]);
});
