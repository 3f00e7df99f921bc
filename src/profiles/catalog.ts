import { FileFault } from "./contained.ts";
import type { Definition } from "./definition.ts";
import { isBroken, loadLayer, scan } from "./load.ts";
import type { BrokenLayer, Layer } from "./load.ts";
import { remembered } from "./remembered.ts";
import type { Root } from "./roots.ts";

/** All profiles and agents read, by name, each in search order. */
export type Layers = ReadonlyMap<string, readonly (Layer | BrokenLayer)[]>;

type Request<Value> = {
  /** Later wins. */
  roots: readonly Root[];
  make: (layers: Layers) => Value;
  /** Milliseconds. */
  now: () => number;
};

/** Gives what `make` makes of the layers: the same value until a file has changed. */
export const catalogReader = <Value>({ roots, make, now }: Request<Value>): (() => Promise<Value>) => {
  const latest = remembered<{ value: Value; signature: string }>(async (previous) => {
    const { sources, signature } = await scan(roots);
    if (signature === previous?.signature) return previous;
    return { value: make(byName(await Promise.all(sources.map(loadLayer)))), signature };
  }, now);
  return async () => (await latest()).value;
};

const byName = (loaded: readonly (Layer | BrokenLayer)[]): Layers => {
  const layers = new Map<string, (Layer | BrokenLayer)[]>();
  for (const layer of loaded) {
    const all = layers.get(layer.name) ?? [];
    const previous = all.at(-1);
    const isTwin = previous?.source.root === layer.source.root;
    layers.set(layer.name, isTwin ? all.with(-1, twins(previous, layer)) : [...all, layer]);
  }
  return layers;
};

/** Which of the two was meant cannot be told. */
const twins = (first: Layer | BrokenLayer, second: Layer | BrokenLayer): BrokenLayer => {
  const { name, source } = first;
  const both = `${source.file} and ${second.source.file} are both named ${name}; keep one of them`;
  return {
    name,
    source,
    fault: new FileFault(isBroken(second) ? `${both} (${second.fault.message})` : both),
  };
};

/** The profile or agent and those it extends, furthest first. @throws FileFault */
export const lineage = (layer: Layer, layers: Layers): Layer[] => {
  const chain = [layer];
  for (let current = layer; current.definition.extends;) {
    const wanted = current.definition.extends;
    const fault = (sentence: string) => new FileFault(`${current.source.file}: extends ${sentence}`);
    const parent = parentOf(current, wanted, layers);
    if (parent === undefined) throw fault(missingParent(current, wanted));
    if (isBroken(parent)) throw fault(`${wanted}, which cannot be used: ${parent.fault.message}`);
    if (chain.includes(parent))
      throw fault(`in a circle: ${[...chain, parent].map(({ name }) => name).join(" → ")}`);
    chain.push(parent);
    current = parent;
  }
  return chain.reverse();
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

const isAgent = ({ source }: Layer | BrokenLayer): boolean => source.root.name === "hub";

/**
 * One that extends its own name means the one it hides: `code` can be changed in two lines. A profile extends profiles
 * only, whatever agents the hub has.
 */
const parentOf = (child: Layer, wanted: string, layers: Layers): Layer | BrokenLayer | undefined => {
  const all = layers.get(wanted) ?? [];
  const visible = wanted === child.name ? all.slice(0, all.indexOf(child)) : all;
  return visible.findLast((parent) => isAgent(child) || !isAgent(parent));
};

const missingParent = (child: Layer, wanted: string): string => {
  if (isAgent(child)) return `${wanted}, and there is no other agent and no profile of that name`;
  return wanted === child.name
    ? `in a circle: ${wanted} → ${wanted}, for no earlier directory of the search order has a profile ${wanted}`
    : `${wanted}, and there is no profile of that name`;
};
