import { join } from "node:path";

const modules = join(import.meta.dirname, "..", "node_modules");

/** The newest agent CLI that package-lock.json names: the one that the tests use unless they say otherwise. */
export const newestCli = join(modules, ".bin", "claude");

/** The oldest that works. */
export const oldestCli = join(modules, "claude-code-oldest", "bin", "claude.exe");

/** For `describe.each`. */
export const bothClis = [
  { which: "the newest", cli: newestCli },
  { which: "the oldest", cli: oldestCli },
];
