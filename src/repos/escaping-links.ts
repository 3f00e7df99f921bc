import { lstat, readlink } from "node:fs/promises";
import { pathBytes } from "./tree.ts";

/**
 * Whether following a link of the working tree would lead out of it at any step, by an absolute path or by `..`. Paths
 * are bytes, one character each. Links it leads through are followed as the kernel would; one that ends nowhere inside
 * is harmless.
 */
export const leadsOut = async (root: string, link: string): Promise<boolean> => {
  const base = Buffer.from(root).toString("latin1");
  const at: string[] = [];
  const ahead = link.split("/");
  for (let hops = 0; ahead.length > 0;) {
    const part = ahead.shift() ?? "";
    if (part === "" || part === ".") continue;
    if (part === "..") {
      if (at.pop() === undefined) return true;
      continue;
    }
    at.push(part);
    const target = await targetOf(pathBytes([base, ...at].join("/")));
    if (target === null) continue;
    // The kernel gives up after 40 as well.
    if (target.startsWith("/") || ++hops > 40) return true;
    at.pop();
    ahead.unshift(...target.split("/"));
  }
  return false;
};

/** Where a link points to; null when it is no link or not there. */
const targetOf = async (path: Buffer): Promise<string | null> => {
  const found = await lstat(path).catch(() => null);
  if (found === null || !found.isSymbolicLink()) return null;
  return (await readlink(path, { encoding: "buffer" })).toString("latin1");
};
