import { cp, symlink } from "node:fs/promises";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const left = new Set(["node_modules", ".git", "dist", "coverage"].map((name) => join(root, name)));

/** Makes a copy of the checkout with the packages of this one. Nothing there may run `npm ci`: it would empty them. */
export const copyCheckout = async (target: string): Promise<void> => {
  await cp(root, target, {
    recursive: true,
    filter: (path) => !left.has(path) && !path.endsWith(".tgz"),
  });
  await symlink(join(root, "node_modules"), join(target, "node_modules"));
};
