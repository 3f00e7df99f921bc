import { execFile } from "node:child_process";
import { chmod, link, mkdir, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { diskUsage } from "./disk-usage.ts";

const signal = new AbortController().signal;
const run = promisify(execFile);

/** The result of another program, in bytes. */
const du = async (path: string): Promise<number> =>
  512 * Number((await run("du", ["--block-size=512", "--summarize", path])).stdout.split("\t")[0]);

test("a tree takes the size of its blocks: hard links count once, holes not at all, whatever the names", async () => {
  const root = await temporaryDirectory();
  await mkdir(join(root, "a/b/ü"), { recursive: true });
  await writeFile(join(root, "a/big"), Buffer.alloc(300_000, 1));
  await link(join(root, "a/big"), join(root, "a/b/again"));
  await symlink("/usr", join(root, "a/usr"));
  await writeFile(join(root, "sparse"), "x");
  await truncate(join(root, "sparse"), 50_000_000);
  await writeFile(Buffer.concat([Buffer.from(`${root}/a/b/ü/`), Buffer.of(0xff, 0xfe)]), "12345");
  await mkdir(Buffer.concat([Buffer.from(`${root}/a/`), Buffer.of(0xe9)]));
  await writeFile(
    Buffer.concat([Buffer.from(`${root}/a/`), Buffer.of(0xe9, 0x2f, 0x78)]),
    Buffer.alloc(9000, 1),
  );
  const bytes = await diskUsage(root, { exclude: [], signal });
  expect(bytes).toBe(await du(root));
  expect(bytes).toBeGreaterThan(300_000);
  expect(bytes).toBeLessThan(1_000_000);
});

test("what has one of the given names is left out at any depth", async () => {
  const root = await temporaryDirectory();
  for (const directory of ["node_modules", "a/node_modules/b", "a/bücher"])
    await mkdir(join(root, directory), { recursive: true });
  await writeFile(join(root, "node_modules/x"), Buffer.alloc(100_000, 1));
  await writeFile(join(root, "a/node_modules/b/x"), Buffer.alloc(100_000, 1));
  await writeFile(join(root, "a/bücher/x"), Buffer.alloc(100_000, 1));
  await writeFile(join(root, "a/target.txt"), Buffer.alloc(200_000, 1));
  const bytes = await diskUsage(root, { exclude: ["node_modules", "bücher", "target"], signal });
  for (const gone of ["node_modules", "a/node_modules", "a/bücher"])
    await rm(join(root, gone), { recursive: true });
  expect(bytes).toBe(await du(root));
  expect(bytes).toBeGreaterThan(200_000);
});

test("a missing tree takes nothing, a file or a link its own size, and unreadable files do not count", async () => {
  const root = await temporaryDirectory();
  expect(await diskUsage(join(root, "none"), { exclude: [], signal })).toBe(0);
  await mkdir(join(root, "tree/closed"), { recursive: true });
  await writeFile(join(root, "tree/file"), Buffer.alloc(10_000, 1));
  await symlink(join(root, "tree"), join(root, "link"));
  expect(await diskUsage(join(root, "link"), { exclude: [], signal })).toBe(0);
  await chmod(join(root, "tree/closed"), 0);
  expect(await diskUsage(join(root, "tree"), { exclude: [], signal })).toBeGreaterThan(10_000);
  await chmod(join(root, "tree/closed"), 0o700);
});

test("a tree deeper than a path can name is measured as far as it can be named", async () => {
  const root = await temporaryDirectory();
  const chain = Array.from({ length: 70 }, () => "d".repeat(50)).join("/");
  for (const half of ["upper", "lower"]) await mkdir(join(root, half, chain), { recursive: true });
  // In memory a directory itself takes nothing.
  await writeFile(join(root, "upper/file"), "x");
  const joint = join(root, "upper", chain, "lower");
  await rename(join(root, "lower"), joint);
  expect(await diskUsage(root, { exclude: [], signal })).toBeGreaterThan(0);
  // What is too deep cannot be removed.
  await rename(joint, join(root, "lower"));
});

test("a tree that is deleted in the meantime does not make it fail, and it stops when its signal aborts", async () => {
  const root = await temporaryDirectory();
  await run("sh", ["-c", "for d in $(seq 40); do mkdir $d; (cd $d; touch $(seq 100)); done"], { cwd: root });
  const stop = new AbortController();
  const stopped = diskUsage(root, { exclude: [], signal: stop.signal });
  setImmediate(() => stop.abort(new Error("enough")));
  await expect(stopped).rejects.toThrow("enough");
  const [bytes] = await Promise.all([
    diskUsage(root, { exclude: [], signal }),
    rm(root, { recursive: true, force: true }),
  ]);
  expect(bytes).toBeGreaterThanOrEqual(0);
});
