import { execFile } from "node:child_process";
import { chmod, mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createWorkspaces } from "./workspaces.ts";

const session = (digit: number): string => `00000000-0000-4000-8000-00000000000${digit}`;
const now = new Date("2026-01-02T03:04:05Z");
const setUp = async () => {
  const root = await temporaryDirectory();
  return { root, workspaces: createWorkspaces({ root, agent: "default", now: () => now }) };
};

test("an empty directory goes a minute after its last use, one with work in it stays", async () => {
  const { root, workspaces } = await setUp();
  const earlier = new Date(now.getTime() - 61_000);
  for (const digit of [1, 2, 3]) await workspaces.use(workspaces.pathOf(session(digit)));
  await writeFile(join(workspaces.pathOf(session(2)), "work.txt"), "work");
  for (const digit of [1, 2]) await utimes(workspaces.pathOf(session(digit)), earlier, earlier);
  expect(await workspaces.removeUnused(0, new Set())).toBe(1);
  expect((await readdir(join(root, "default"))).toSorted()).toEqual([session(2), session(3)]);
});

test("only directories that were made here, are old and not in use are removed", async () => {
  const { root, workspaces } = await setUp();
  for (const digit of [1, 2, 3]) await workspaces.use(workspaces.pathOf(session(digit)));
  await mkdir(join(root, "default", "mine"));
  const old = new Date(0);
  for (const name of [session(1), session(2), "mine"]) await utimes(join(root, "default", name), old, old);
  const inUse = new Set([workspaces.pathOf(session(2))]);
  expect(await workspaces.removeUnused(now.getTime() - 1000, inUse)).toBe(1);
  expect((await readdir(join(root, "default"))).toSorted()).toEqual([session(2), session(3), "mine"]);
});

test("using a directory again makes it young, and makes it again when it is gone", async () => {
  const { workspaces } = await setUp();
  const path = workspaces.pathOf(session(1));
  await workspaces.use(path);
  await utimes(path, new Date(0), new Date(0));
  await workspaces.use(path);
  expect(await workspaces.removeUnused(now.getTime() - 1000, new Set())).toBe(0);
});

test("a tree that an agent made read-only is removed", async () => {
  const { root, workspaces } = await setUp();
  const old = new Date(0);
  for (const digit of [1, 2, 3]) {
    const path = workspaces.pathOf(session(digit));
    await mkdir(join(path, "module"), { recursive: true });
    await writeFile(join(path, "module/file.go"), "");
    await chmod(join(path, "module"), 0o500);
    await utimes(path, old, old);
  }
  // Root may do everything: as a root without capabilities the program is like any other user.
  const isRoot = process.getuid?.() === 0;
  const plain = isRoot ? ["/usr/bin/setpriv", "--inh-caps=-all", "--bounding-set=-all"] : [];
  const script = `import { createWorkspaces } from ${JSON.stringify(join(import.meta.dirname, "workspaces.ts"))};
    const workspaces = createWorkspaces({ root: ${JSON.stringify(root)}, agent: "default", now: () => new Date() });
    console.log(await workspaces.removeUnused(Date.now(), new Set()));`;
  const [program, ...args] = [...plain, process.execPath, "--input-type=module", "--eval", script];
  const { stdout } = await promisify(execFile)(program, args);
  expect(stdout.trim()).toBe("3");
  expect(await readdir(join(root, "default"))).toEqual([]);
});
