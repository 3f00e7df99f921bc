import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { isBelow } from "../lib/is-below.ts";

/** A path that a run has at the same place. `target`: where it leads, of a link; null: it is bound. */
export type Shown = { path: string; target: string | null };

/** Parts of /etc: `shown` are readable with all that is below them, `parents` only lead to such. */
export type Configuration = { shown: readonly Shown[]; parents: readonly string[] };

/** May hold passwords although everybody may read it, or is the service's own. */
const withheld = /^\/etc\/(apt\/auth\.conf[^/]*|default|environment(\.d)?|svc|systemd)$/;

/**
 * What everybody may read of /etc, as it is now. A directory of which everybody may read all is one part, so what is added
 * to it later is shown as well.
 *
 * @param reserved places that no run may have; where one is a link, the place that it leads to is another
 */
export const publicConfiguration = (reserved: readonly string[], top = "/etc"): Configuration => {
  const closed = [...reserved, ...reserved.filter(existsSync).map((path) => realpathSync(path))];
  const isWithheld = (path: string): boolean =>
    withheld.test(path) || closed.some((other) => isBelow(path, other));
  const partsOf = (directory: string): (Configuration & { isWhole: boolean })[] =>
    readdirSync(directory).map((name) => {
      const path = join(directory, name);
      const stats = lstatSync(path, { throwIfNoEntry: false });
      if (stats === undefined || isWithheld(path)) return nothing;
      if (stats.isSymbolicLink()) return whole(path, readlinkSync(path));
      if (stats.isFile()) return (stats.mode & 0o4) === 0 ? nothing : whole(path);
      if (!stats.isDirectory() || (stats.mode & 0o5) !== 0o5) return nothing;
      const parts = partsOf(path);
      return parts.every(({ isWhole }) => isWhole) ? whole(path) : { ...joined(path, parts), isWhole: false };
    });
  return joined(top, partsOf(top));
};

const nothing = { shown: [], parents: [], isWhole: false };

const whole = (path: string, target: string | null = null) => ({
  shown: [{ path, target }],
  parents: [],
  isWhole: true,
});

const joined = (directory: string, parts: readonly Configuration[]): Configuration => ({
  shown: parts.flatMap(({ shown }) => shown),
  parents: [directory, ...parts.flatMap(({ parents }) => parents)],
});
