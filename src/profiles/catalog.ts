import type { Layers } from "./inherit.ts";
import { isBroken, loadLayer } from "./load.ts";
import type { BrokenLayer, Layer } from "./load.ts";
import { remembered } from "./remembered.ts";
import { resolveProfile } from "./resolve.ts";
import type { BrokenProfile, UsableProfile } from "./resolve.ts";
import type { ProfileRoot } from "./roots.ts";
import { scan } from "./scan.ts";
import type { Scan } from "./scan.ts";

/** Profiles by name, in the order of the names. */
export type Catalog = ReadonlyMap<string, UsableProfile | BrokenProfile>;

/** Gives the catalog, read again when a file has changed. `now` in milliseconds. */
export const catalogReader = (roots: readonly ProfileRoot[], now: () => number): (() => Promise<Catalog>) => {
  const latest = remembered<{ catalog: Catalog; signature: string }>(async (previous) => {
    const found = await scan(roots);
    if (found.signature === previous?.signature) return previous;
    return { catalog: await read(found), signature: found.signature };
  }, now);
  return async () => (await latest()).catalog;
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
