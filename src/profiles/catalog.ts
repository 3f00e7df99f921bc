import { FileFault } from "./contained.ts";
import type { Definition } from "./definition.ts";
import { isBroken, loadLayer, scan, type BrokenLayer, type Layer } from "./load.ts";
import type { Root } from "./roots.ts";

/** All profiles and agents by name, each in search order. */
export type Layers = ReadonlyMap<string, readonly (Layer | BrokenLayer)[]>;

type CatalogRequest<Value> = {
  /** Later wins. */
  roots: () => Promise<readonly Root[]>;
  make: (layers: Layers, roots: readonly Root[]) => Value;
  /** Milliseconds. */
  now: () => number;
};

/** Returns what `make` makes of the layers: the same value until a file has changed. */
export const catalogReader = <Value>({ roots, make, now }: CatalogRequest<Value>): (() => Promise<Value>) => {
  const latest = cached<{ value: Value; signature: string }>({
    refresh: async (previous) => {
      const from = await roots();
      const { sources, signature } = await scan(from);
      if (signature === previous?.signature) return previous;
      return { value: make(byName(await Promise.all(sources.map(loadLayer))), from), signature };
    },
    // A sync moves a root: what it brought is in force at once.
    version: async () => (await roots()).map(({ path }) => path).join("\n"),
    now,
  });
  return async () => (await latest()).value;
};

const byName = (loaded: readonly (Layer | BrokenLayer)[]): Layers => {
  const layers = new Map<string, (Layer | BrokenLayer)[]>();
  for (const layer of loaded) {
    const all = layers.get(layer.name) ?? [];
    const previous = all.at(-1);
    const isTwin = previous?.source.root === layer.source.root;
    layers.set(layer.name, isTwin ? all.with(-1, ambiguous(previous, layer)) : [...all, layer]);
  }
  return layers;
};

/** Two of one name are ambiguous. */
const ambiguous = (first: Layer | BrokenLayer, second: Layer | BrokenLayer): BrokenLayer => {
  const { name, source } = first;
  const both = `${source.file} and ${second.source.file} are both named ${name}; keep one of them`;
  return {
    name,
    source,
    fault: new FileFault(isBroken(second) ? `${both} (${second.fault.message})` : both),
  };
};

/** The profile or agent with those that it extends, furthest first. @throws FileFault */
export const lineage = (layer: Layer, layers: Layers): Layer[] => {
  const chain = [layer];
  for (let current = layer; current.definition.extends;) {
    const parentName = current.definition.extends;
    const fault = (sentence: string) => new FileFault(`${current.source.file}: extends ${sentence}`);
    const parent = parentOf(current, parentName, layers);
    if (parent === undefined) throw fault(missingParent(current, parentName));
    if (isBroken(parent)) throw fault(`${parentName}, which cannot be used: ${parent.fault.message}`);
    if (chain.includes(parent))
      throw fault(`in a circle: ${[...chain, parent].map(({ name }) => name).join(" → ")}`);
    chain.push(parent);
    current = parent;
  }
  return chain.reverse();
};

/** Per key the child wins; each key of `claude` and `match` counts separately; `match: null` inherits none. */
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
 * One that extends its own name extends the one that it hides: two lines can change `code`. A profile extends only
 * profiles, whatever agents the hub has.
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

/** Milliseconds for which a result is reused without looking at the disk. */
const maxAge = 1000;

type CacheRequest<Value> = {
  /** Gets its last value (null: none), to return it when nothing has changed. */
  refresh: (previous: Value | null) => Promise<Value>;
  /** A change of it ends the cache at once. It must be cheap. */
  version: () => Promise<unknown>;
  /** Milliseconds. */
  now: () => number;
};

/** Caches the result of `refresh` for a second; a `FileFault` is cached too. */
export const cached = <Value>({ refresh, version, now }: CacheRequest<Value>): (() => Promise<Value>) => {
  let current: { value: Promise<Value>; version: unknown; at: number } | null = null;
  return async () => {
    const latest = await version();
    const at = now();
    // A clock that was set back must not prolong the cache.
    const isFresh = current !== null && at - current.at < maxAge && at >= current.at;
    if (current !== null && isFresh && current.version === latest) return current.value;
    const before = current;
    // Concurrent callers share one refresh: after a seen change nobody gets the state before it.
    const value = (async () => refresh(before === null ? null : await before.value.catch(() => null)))();
    const next = { value, version: latest, at };
    current = next;
    // Other failures (a program error, say) are not cached.
    value.catch((error: unknown) => {
      if (current === next && !(error instanceof FileFault)) current = null;
    });
    return value;
  };
};
