import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
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
  const readable = (await Promise.all(outside.map(placesOf))).flat();
  return { readable, path: outside.map((file) => dirname(file)) };
};

/**
 * Around a program that may lie anywhere in a user's home: its npm package; a `bin` and the `lib` beside it, without their
 * parent; else its directory, or the file alone if that holds the home.
 */
const placesOf = async (file: string): Promise<string[]> => {
  const [installed] = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file) ?? [];
  if (installed !== undefined) return [installed];
  const directory = dirname(file);
  for (let at = directory; !holdsHome(at); at = dirname(at))
    if (existsSync(join(at, "package.json"))) return [at];
  const library = join(dirname(directory), "lib");
  if (basename(directory) === "bin")
    return existsSync(library) ? [directory, await realpath(library)] : [directory];
  return [holdsHome(directory) ? file : directory];
};

/** A package.json lies there by accident. */
const holdsHome = (directory: string): boolean =>
  directory === "/" || `${homedir()}/`.startsWith(`${directory}/`);
