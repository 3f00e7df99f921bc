import type { LoadedAgent } from "./agent-package.ts";

/** Models that every agent can be asked to use, as the CLI calls them. */
const tiers = ["haiku", "sonnet", "opus"] as const;

/** Names of an agent's models without aliases, each with what the CLI is told; null: the agent's own model. */
export const ownModelNames = (agent: string): Map<string, string | null> =>
  new Map<string, string | null>([
    [agent, null],
    ...tiers.map((tier) => [`${agent}:${tier}`, tier] as const),
    // An agent that is itself called like a tier keeps its name.
    ...tiers.filter((tier) => tier !== agent).map((tier) => [tier, tier] as const),
  ]);

/** With the aliases, each of which leads to an own name. */
export const modelNames = (
  own: ReadonlyMap<string, string | null>,
  aliases: ReadonlyMap<string, string>,
): Pick<LoadedAgent, "models" | "cliModel"> => {
  const all = new Map([
    ...own,
    ...[...aliases].map(([alias, name]) => [alias, own.get(name) ?? null] as const),
  ]);
  return { models: [...all.keys()], cliModel: (name) => all.get(name) };
};
