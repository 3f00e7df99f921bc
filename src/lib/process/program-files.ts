import { realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { findExecutable } from "./executable.ts";

/**
 * What programs outside /usr need to run where only named places are there: the directories with their own files, and those
 * in which they are found by name, both without links. `path`: a PATH variable.
 */
export const programFiles = async (
  commands: readonly string[],
  path: string,
): Promise<{ readable: string[]; path: string[] }> => {
  const found = await Promise.all(commands.map((name) => findExecutable(name, path)));
  const files = await Promise.all(found.flatMap((each) => (each.ok ? [realpath(each.path)] : [])));
  const outside = files.filter((file) => !file.startsWith("/usr/"));
  return { readable: await Promise.all(outside.map(packageOf)), path: outside.map((file) => dirname(file)) };
};

/** The directory of the npm package around a file, the prefix around a `bin`, else the file's own. */
const packageOf = async (file: string): Promise<string> => {
  for (let at = dirname(file); at !== "/"; at = dirname(at))
    if ((await stat(join(at, "package.json")).catch(() => null)) !== null) return at;
  return dirname(file).endsWith("/bin") ? dirname(dirname(file)) : dirname(file);
};
