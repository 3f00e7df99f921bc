import { lstat } from "node:fs/promises";

/* Paths as git gives them are bytes, one character each (latin1): they need not be UTF-8. */

/** The bytes of a path from git. */
export const pathBytes = (path: string): Buffer => Buffer.from(path, "latin1");

/** As git takes paths from its standard input. */
export const pathList = (paths: readonly string[]): Buffer =>
  pathBytes(paths.map((path) => `${path}\0`).join(""));

export const pathText = (path: string): string => pathBytes(path).toString();

/** For messages. */
export const shownPath = (path: string): string => pathText(path).replaceAll(/\p{Cc}/gu, "?");

/** The absolute path, in bytes. */
export const inside = (root: string, path: string): Buffer =>
  Buffer.concat([Buffer.from(`${root}/`), pathBytes(path)]);

/** The paths at which nothing is. Paths are bytes. */
export const absentIn = async (root: string, paths: string[]): Promise<string[]> => {
  const different = [...new Set(paths)];
  const found = await Promise.all(different.map((path) => lstat(inside(root, path)).catch(() => null)));
  return different.filter((_, nth) => found[nth] === null);
};
