import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { FileFault } from "./contained.ts";
import type { Definition } from "./definition.ts";
import { isBroken, loadRoot, type BrokenLayer, type Layer } from "./load.ts";
import type { Root } from "./roots.ts";

/** All profiles and agents by name, each in search order. */
export type Layers = ReadonlyMap<string, readonly (Layer | BrokenLayer)[]>;

type CatalogRequest<Value> = {
  /** Later wins. */
  roots: () => Promise<readonly Root[]>;
  make: (layers: Layers, roots: readonly Root[]) => Value | Promise<Value>;
  /** Milliseconds. */
  now: () => number;
};

/** `stamp`: of the files it was made from. */
type Loaded<Value> = { stamp: string; value: Value } | { stamp: string; fault: FileFault };

/** Milliseconds for which a result is reused without looking at the disk. */
const maxAge = 1000;

/**
 * Returns what `make` makes of the layers: the same value until a file below the roots has changed. A `FileFault` is
 * remembered likewise. Concurrent callers share one look at the disk.
 */
export const catalogReader = <Value>({ roots, make, now }: CatalogRequest<Value>): (() => Promise<Value>) => {
  let latest: { paths: string; at: number; loaded: Promise<Loaded<Value>> } | null = null;

  const load = async (from: readonly Root[], before: typeof latest): Promise<Loaded<Value>> => {
    const stamp = (await Promise.all(from.map(stampOf))).join("\n");
    const previous = await before?.loaded.catch(() => null);
    if (previous?.stamp === stamp) return previous;
    const layers = byName((await Promise.all(from.map(loadRoot))).flat());
    try {
      return { stamp, value: await make(layers, from) };
    } catch (fault) {
      if (fault instanceof FileFault) return { stamp, fault };
      throw fault;
    }
  };

  return async () => {
    const from = await roots();
    // A sync moves a root: what it brought is in force at once.
    const paths = from.map(({ path }) => path).join("\n");
    // A clock that was set back must not prolong the reuse.
    const isFresh = latest?.paths === paths && now() >= latest.at && now() < latest.at + maxAge;
    if (latest === null || !isFresh) latest = { paths, at: now(), loaded: load(from, latest) };
    const loaded = await latest.loaded;
    if ("fault" in loaded) throw loaded.fault;
    return loaded.value;
  };
};

/** Changes with every file below the directory, and with the hub's aliases; a commit's checkout never changes. */
const stampOf = async ({ name, path, label }: Root): Promise<string> => {
  if (label !== undefined) return path;
  const aliases = name === "hub" ? await marksBelow(join(path, "..", "aliases.yaml")) : [];
  // Enters the root also if it is a link.
  return [...(await marksBelow(`${path}/.`)), ...aliases].join("\n");
};

/** A write, a rename into place and a change of permissions alter a mark. Links are not followed: what they lead to is below the root. */
const marksBelow = async (path: string): Promise<string[]> => {
  const status = await lstat(path, { bigint: true }).catch(() => null);
  if (status === null) return [];
  const names = status.isDirectory() ? await readdir(path).catch(() => []) : [];
  const below = await Promise.all(
    names.filter((name) => name !== ".git").map((name) => marksBelow(join(path, name))),
  );
  return [`${path} ${status.ctimeNs} ${status.ino}`, ...below.flat()];
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
  const fault = new FileFault(isBroken(second) ? `${both} (${second.fault.message})` : both);
  return { name, source, fault };
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

/** Per key the child wins; each key of `claude`, `sandbox` and `match` counts separately; `match: null` inherits none. */
export const inherit = (chain: readonly Layer[]): Definition =>
  chain.reduce<Definition>(
    (parent, { definition }) => ({
      ...parent,
      ...definition,
      claude: { ...parent.claude, ...definition.claude },
      sandbox: { ...parent.sandbox, ...definition.sandbox },
      deliver: { ...parent.deliver, ...definition.deliver },
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
