import { lstat, readdir, readFile } from "node:fs/promises";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../until.ts";
import { rawGit, textIn, type Place } from "./place.ts";
import type { Witness } from "./witness.ts";

/** What nobody but the service may write: names, sizes and texts. */
const stateOf = async ({ secret, root }: Place, serviceDirs: string[]): Promise<string> => {
  const configs = serviceDirs.map((dir) => readFile(join(dir, "config"), "latin1").catch(String));
  const hooks = serviceDirs.map((dir) => readdir(join(dir, "hooks")).catch(() => []));
  const listings = [secret.gitDir, join(root, "outside")].map(async (dir) => {
    const entries = await readdir(dir, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => !entry.isDirectory());
    const sizes = files.map(async ({ parentPath, name }) => {
      const { size, mode } = await lstat(join(parentPath, name));
      return `${parentPath}/${name} ${size} ${mode}`;
    });
    return (await Promise.all(sizes)).toSorted().join("\n");
  });
  const texts = [textIn(secret.gitDir, "packed-refs"), textIn(root, "outside/secret")];
  return JSON.stringify(await Promise.all([...configs, ...hooks, ...listings, ...texts]), null, 1);
};

/** Looks at what lies outside of the worktree now; the check says what has changed since. */
export const watchOutside = async (place: Place) => {
  const { serviceDirs, worktree } = place;
  const before = await stateOf(place, serviceDirs);
  return async (witness: Witness, { isRemoved = false } = {}): Promise<void> => {
    const ran = await textIn(place.trap.outside, "ran");
    if (ran !== "") witness.fault(`ran outside: ${[...new Set(ran.split("\n"))].join("; ")}`);
    const dirs = serviceDirs.filter((dir) => !isRemoved || dir !== worktree.ownDir);
    const after = (await stateOf(place, dirs)).split("\n");
    const lines = before.split("\n");
    const changed = after.filter((line) => !lines.includes(line));
    if (changed.length > 0) witness.fault(`changed outside: ${changed.join("; ")}`);
    for (const name of ["read", "socket"]) {
      const text = await textIn(place.trap.directory, name);
      if (name === "socket" ? text !== "" : text.includes(place.secret.tip))
        witness.fault(`behind the wall: ${name} ${text.slice(0, 100)}`);
      witness.noteWords("a program behind the wall", text);
    }
  };
};

/** Searches what was saved and pushed, and the service's git directory, for objects of the other repository. */
export const findEscaped = async (place: Place, witness: Witness): Promise<void> => {
  const { remote, secret } = place;
  for (const gitDir of [remote, ...place.serviceDirs.slice(0, -1)]) {
    const args = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered"];
    const ids = await rawGit(gitDir, ...args).catch(() => "");
    const escaped = secret.ids.find((id) => ids.includes(id));
    if (escaped !== undefined) witness.fault(`${gitDir} has ${escaped} of another repository`);
  }
};

const sleeping = (seconds: string): number[] =>
  readdirSync("/proc").flatMap((pid) => {
    try {
      const isOne = readFileSync(`/proc/${pid}/cmdline`, "latin1") === ["sleep", seconds, ""].join("\0");
      return isOne ? [Number(pid)] : [];
    } catch {
      return [];
    }
  });

/** No program of the agent's outlives git. */
export const findLeftBehind = async ({ trap }: Place, witness: Witness): Promise<void> => {
  const isOver = () => sleeping(trap.sleeps).length === 0;
  await until(isOver, { seconds: 5 }).catch(() => undefined);
  const pids = sleeping(trap.sleeps);
  if (pids.length > 0) witness.fault(`${pids.length} programs outlive git`);
  for (const pid of pids) process.kill(pid, "SIGKILL");
};
