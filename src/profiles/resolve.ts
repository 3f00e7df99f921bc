import type { Profile } from "../contract/profile.ts";
import { inherit, lineage } from "./inherit.ts";
import type { Layers } from "./inherit.ts";
import { isBroken } from "./load.ts";
import type { BrokenLayer, Layer } from "./load.ts";
import { matcher } from "./match.ts";
import type { Matcher } from "./match.ts";
import { planOf } from "./plan.ts";
import type { Plan } from "./plan.ts";
import type { ResolvedProfile } from "./profile.ts";

/** A profile that can be used: everything that routing and materialising need. */
export type UsableProfile = Plan & {
  profile: ResolvedProfile;
  ruleFor: Matcher;
  /** The profile and those it extends, furthest first. */
  chain: Layer[];
};

export type BrokenProfile = { profile: Profile & { error: string } };

export const isUsable = (entry: UsableProfile | BrokenProfile): entry is UsableProfile => "chain" in entry;

/** Of a profile that says nothing; a profile that extends another takes the other's values instead. */
const defaults = { model: "sonnet", permission_mode: "default", worktree: true } as const;

/** Applies `extends`, defaults and the rules that join several keys. */
export const resolveProfile = (layer: Layer | BrokenLayer, layers: Layers): UsableProfile | BrokenProfile => {
  if (isBroken(layer)) return brokenProfile(layer, layer.fault);
  const broken = (fault: string) => brokenProfile(layer, `${layer.candidate.file}: ${fault}`);
  const line = lineage(layer, layers);
  if ("fault" in line) return broken(line.fault);
  const { chain } = line;

  const definition = inherit(chain);
  const readOnly = definition.read_only ?? false;
  const autoPr = definition.auto_pr ?? false;
  const plan = planOf({ block: definition.claude ?? {}, readOnly, autoPr, defaults, layers: chain });
  if ("fault" in plan) return broken(plan.fault);
  const { block } = plan;

  return {
    ...plan,
    profile: {
      name: layer.name,
      description: definition.description ?? "",
      model: block.model,
      max_turns: block.max_turns ?? null,
      worktree: block.worktree,
      auto_pr: autoPr,
      permission_mode: block.permission_mode,
      source: sourceOf(layer),
      error: null,
      retryLost: definition.retry_lost ?? false,
      readOnly,
    },
    ruleFor: matcher(definition.match),
    chain,
  };
};

const sourceOf = ({ candidate }: Layer | BrokenLayer): string =>
  candidate.root.label ?? candidate.directory ?? candidate.file;

const brokenProfile = (layer: Layer | BrokenLayer, error: string): BrokenProfile => ({
  profile: {
    name: layer.name,
    description: "",
    model: "",
    max_turns: null,
    worktree: false,
    auto_pr: false,
    permission_mode: "",
    source: sourceOf(layer),
    error,
  },
});
