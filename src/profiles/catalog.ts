import type { Layers } from "./inherit.ts";
import { isBroken, loadLayer } from "./load.ts";
import type { BrokenLayer, Layer } from "./load.ts";
import { resolveProfile } from "./resolve.ts";
import type { BrokenProfile, UsableProfile } from "./resolve.ts";
import type { ProfileRoot } from "./roots.ts";
import { scan } from "./scan.ts";
import type { Scan } from "./scan.ts";

/** Profiles by name, in the order of the names. */
export type Catalog = ReadonlyMap<string, UsableProfile | BrokenProfile>;

/** Milliseconds for which the files are taken to be as they were: a submission then costs no look at the disk. */
const trustFor = 1000;

/** Gives the catalog, read again when a file has changed. `now` in milliseconds. */
export const catalogReader = (roots: readonly ProfileRoot[], now: () => number): (() => Promise<Catalog>) => {
  let current: Promise<Catalog> | null = null;
  let signature = "";
  let checkedAt = -Infinity;

  const refresh = async (previous: Promise<Catalog> | null): Promise<Catalog> => {
    const found = await scan(roots);
    if (previous !== null && found.signature === signature) return previous;
    const catalog = await read(found);
    signature = found.signature;
    return catalog;
  };

  return async () => {
    const at = now();
    // A clock that was set back must not make the answer last until it has caught up.
    const fresh = at - checkedAt < trustFor && at >= checkedAt;
    if (current === null || !fresh) {
      const previous = current;
      checkedAt = at;
      current = refresh(previous);
      // After a failure (out of file descriptors, say) the next call tries again instead of repeating the failure.
      current.catch(() => {
        current = null;
      });
    }
    return current;
  };
};

const read = async ({ candidates }: Scan): Promise<Catalog> => {
  const layers: Layers = new Map();
  for (const layer of await Promise.all(candidates.map(loadLayer))) {
    const others = layers.get(layer.name) ?? [];
    const twin = others.find(({ candidate }) => candidate.rank === layer.candidate.rank);
    if (twin === undefined) layers.set(layer.name, [...others, layer]);
    else layers.set(layer.name, [...others.filter((other) => other !== twin), twins(twin, layer)]);
  }
  const byName = [...layers].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return new Map(
    byName.flatMap(([name, all]) => {
      const last = all.at(-1);
      return last === undefined ? [] : [[name, resolveProfile(last, layers)]];
    }),
  );
};

/** Which of the two was meant cannot be told. */
const twins = (first: Layer | BrokenLayer, second: Layer | BrokenLayer): BrokenLayer => {
  const both = `${first.candidate.file} and ${second.candidate.file} are both named ${first.name}; keep one of them`;
  return {
    name: first.name,
    candidate: first.candidate,
    fault: isBroken(second) ? `${both} (${second.fault})` : both,
  };
};
