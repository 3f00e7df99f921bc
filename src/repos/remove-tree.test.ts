import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { removeTree } from "./remove.ts";

test("a tree is removed whole, whatever its names, and links are not followed", async () => {
  const root = await temporaryDirectory();
  const [tree, elsewhere] = [join(root, "-rf tree\n"), join(root, "elsewhere")];
  await mkdir(join(tree, "--", "-x"), { recursive: true });
  await mkdir(elsewhere);
  await writeFile(join(elsewhere, "precious.txt"), "mine\n");
  await writeFile(join(tree, "--", "*"), "");
  await symlink(elsewhere, join(tree, "link"));
  await symlink(tree, join(tree, "--", "loop"));
  await removeTree(tree);
  await removeTree(tree);
  expect(existsSync(tree)).toBe(false);
  expect(await readFile(join(elsewhere, "precious.txt"), "utf8")).toBe("mine\n");
});

test("of a link to a tree only the link is removed", async () => {
  const root = await temporaryDirectory();
  await mkdir(join(root, "elsewhere", "inside"), { recursive: true });
  await symlink(join(root, "elsewhere"), join(root, "link"));
  await removeTree(join(root, "link"));
  expect(await readdir(root)).toEqual(["elsewhere"]);
  expect(await readdir(join(root, "elsewhere"))).toEqual(["inside"]);
});
