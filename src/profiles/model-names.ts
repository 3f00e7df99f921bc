import { join } from "node:path";
import { FileFault, readContained } from "./contained.ts";
import { parseYamlMap } from "./yaml-map.ts";

/** Models that every agent can use, in the CLI's terms. */
const tiers = ["haiku", "sonnet", "opus"] as const;

/** Values of `model` in requests, each with the CLI's model; null: the agent's own. */
type ModelNames = ReadonlyMap<string, string | null>;

/** The agent, its tiers and the bare tiers. */
const ownModelNames = (agent: string): ModelNames =>
  new Map<string, string | null>([
    [agent, null],
    ...tiers.map((tier) => [`${agent}:${tier}`, tier] as const),
    // An agent that is named like a tier keeps its name.
    ...tiers.filter((tier) => tier !== agent).map((tier) => [tier, tier] as const),
  ]);

/**
 * The agent's own names and the aliases of `aliases.yaml` that resolve to one of them, in file order. Aliases of other
 * agents are omitted.
 * @throws FileFault for a cycle, an alias that hides an own name, and a tier that the agent does not have
 */
export const modelNames = async (agent: string, hubPath: string | null): Promise<ModelNames> => {
  const own = ownModelNames(agent);
  if (hubPath === null) return own;
  const path = join(hubPath, "aliases.yaml");
  const aliases = await readAliases(hubPath, path);
  const refuse = (fault: string): FileFault => new FileFault(`${path}: ${fault}`);
  const hidden = [...own.keys()].find((name) => aliases.has(name));
  if (hidden !== undefined) throw refuse(`${hidden} is a model's own name; give the alias another one`);
  // What each name resolves to; undefined: nothing of this agent.
  const ends = new Map<string, string | null | undefined>(own);
  for (const alias of aliases.keys()) {
    const way = new Set<string>();
    let at = alias;
    for (; aliases.has(at) && !ends.has(at); at = aliases.get(at) ?? "") {
      if (way.has(at)) throw refuse(`${circle([...way], at)} is a circle; end it in a model`);
      way.add(at);
    }
    if (at.startsWith(`${agent}:`) && !ends.has(at))
      throw refuse(`there is no model ${at}; there are ${[...own.keys()].join(", ")}`);
    for (const passed of way) ends.set(passed, ends.get(at));
  }
  const names = [...own.keys(), ...aliases.keys()];
  return new Map(
    names.flatMap((name) => {
      const model = ends.get(name);
      return model === undefined ? [] : [[name, model]];
    }),
  );
};

/** 64 KiB. */
const maxBytes = 65_536;

const nameForm = /^[^\s\p{Cc}]{1,200}$/u;

/** Targets by alias; none when the file is missing. */
const readAliases = async (root: string, path: string): Promise<ReadonlyMap<string, string>> => {
  const file = await readContained({ root, path, maxBytes });
  const content = file === null ? {} : parseYamlMap(path, file.bytes.toString("utf8"));
  return new Map(
    Object.entries(content as Record<string, unknown>).map(([alias, target]) => {
      if (!nameForm.test(alias))
        throw new FileFault(`${path}: ${JSON.stringify(alias)} must be a name without spaces`);
      if (typeof target === "string" && nameForm.test(target)) return [alias, target];
      const choice = "the name of an agent, `agent:tier`, a tier or another alias";
      throw new FileFault(`${path}: ${alias} must be followed by ${choice}`);
    }),
  );
};

const circle = (way: readonly string[], at: string): string =>
  [...way.slice(way.indexOf(at)), at].join(" → ");
