import type { Definition } from "./definition.ts";
import { isBroken } from "./load.ts";
import type { BrokenLayer, Layer } from "./load.ts";

/** All profiles read, by name, in search order. */
export type Layers = Map<string, (Layer | BrokenLayer)[]>;

/** The profile and those it extends, furthest first; or why that cannot be told. */
export const lineage = (layer: Layer, layers: Layers): { chain: Layer[] } | { fault: string } => {
  const chain = [layer];
  for (let current = layer; current.definition.extends;) {
    const wanted = current.definition.extends;
    const parent = parentOf(current, wanted, layers);
    if (parent === undefined) return { fault: missingParent(current, wanted) };
    if (isBroken(parent)) return { fault: `extends ${wanted}, which cannot be used: ${parent.fault}` };
    if (chain.includes(parent)) {
      return { fault: `extends in a circle: ${[...chain, parent].map(({ name }) => name).join(" → ")}` };
    }
    chain.push(parent);
    current = parent;
  }
  return { chain: chain.reverse() };
};

/** Per key, child wins; the keys of `claude` and `match` each count on their own; `match: null` takes none over. */
export const inherit = (chain: readonly Layer[]): Definition =>
  chain.reduce<Definition>(
    (parent, { definition }) => ({
      ...parent,
      ...definition,
      claude: { ...parent.claude, ...definition.claude },
      match: definition.match === null ? null : { ...parent.match, ...definition.match },
    }),
    {},
  );

/** A profile that extends its own name means the one it hides: `code` can be changed in two lines. */
const parentOf = (child: Layer, wanted: string, layers: Layers): Layer | BrokenLayer | undefined =>
  (layers.get(wanted) ?? []).findLast(
    ({ candidate }) => wanted !== child.name || candidate.rank < child.candidate.rank,
  );

const missingParent = ({ name }: Layer, wanted: string): string =>
  wanted === name
    ? `extends in a circle: ${name} → ${name}, for no earlier directory of the search order has a profile ${name}`
    : `extends ${wanted}, and there is no profile of that name`;
