import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { removeTree } from "./remove-tree.ts";

const makeTree = (root: string): void => {
  for (let n = 0; n < 10_000; n += 1) {
    const directory = join(root, `d${n % 100}`);
    if (n < 100) mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, `f${n}.txt`), "");
  }
};

/** Milliseconds that this process is at work, and can do nothing else. */
const work = async (action: () => Promise<unknown>): Promise<number> => {
  const before = performance.eventLoopUtilization();
  await action();
  return performance.eventLoopUtilization(before).active;
};

test("a tree of many files is removed without keeping the service from its work", async () => {
  const root = await temporaryDirectory();
  for (const name of ["ours", "by-node"]) makeTree(join(root, name));
  const ours = await work(() => removeTree(join(root, "ours")));
  const byNode = await work(() => rm(join(root, "by-node"), { recursive: true }));
  expect(ours).toBeLessThan(byNode / 2);
  expect(existsSync(join(root, "ours"))).toBe(false);
});
