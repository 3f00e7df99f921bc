import { FileFault, readContained } from "./contained.ts";
import { parseYamlMap } from "./yaml-map.ts";

/** 64 KiB. */
const maxBytes = 65_536;

/** Other names of models by name, in the order of the file. */
type Aliases = ReadonlyMap<string, string>;

/** The content of `aliases.yaml`; nothing when it is missing. @throws FileFault */
export const readAliases = async (root: string, path: string): Promise<Aliases> => {
  const file = await readContained({ root, path, maxBytes });
  if (file === null) return new Map();
  const content = parseYamlMap(file.bytes.toString("utf8"));
  const fault = "fault" in content ? content.fault : faultOf(content.value);
  if (fault !== null) throw new FileFault(`${path}: ${fault}`);
  return new Map(Object.entries((content as { value: Record<string, string> }).value));
};

/**
 * Those aliases that lead to one of `names`, each with that name. Aliases of other agents are left out.
 * @throws FileFault for a circle, an alias that hides one of the names, and a tier that `agent` does not have
 */
export const aliasesOf = (
  aliases: Aliases,
  { agent, names, path }: { agent: string; names: ReadonlySet<string>; path: string },
): Map<string, string> => {
  const hidden = [...names].find((name) => aliases.has(name));
  if (hidden !== undefined)
    throw new FileFault(`${path}: ${hidden} is a model's own name; give the alias another one`);
  const ends = new Map<string, string | null>();
  for (const alias of aliases.keys()) {
    const way = new Set<string>();
    let at = alias;
    for (; aliases.has(at) && !ends.has(at); at = aliases.get(at) ?? "") {
      if (way.has(at)) throw new FileFault(`${path}: ${circle(way, at)} is a circle; end it in a model`);
      way.add(at);
    }
    if (at.startsWith(`${agent}:`) && !names.has(at))
      throw new FileFault(`${path}: there is no model ${at}; there are ${[...names].join(", ")}`);
    const end = ends.get(at) ?? (names.has(at) ? at : null);
    for (const passed of way) ends.set(passed, end);
  }
  return new Map(
    [...aliases.keys()].flatMap((alias) => {
      const end = ends.get(alias) ?? null;
      return end === null ? [] : [[alias, end]];
    }),
  );
};

const nameForm = /^[^\s\p{Cc}]{1,200}$/u;

const faultOf = (value: unknown): string | null => {
  for (const [alias, target] of Object.entries(value as Record<string, unknown>)) {
    if (!nameForm.test(alias)) return `${JSON.stringify(alias)} must be a name without spaces`;
    if (typeof target !== "string" || !nameForm.test(target))
      return `${alias} must be followed by the name of an agent, \`agent:tier\`, a tier or another alias`;
  }
  return null;
};

const circle = (way: ReadonlySet<string>, at: string): string => {
  const names = [...way];
  return [...names.slice(names.indexOf(at)), at].join(" → ");
};
