import type { Profile } from "../contract/profile.ts";
import { inherit, lineage } from "./catalog.ts";
import type { Layers } from "./catalog.ts";
import { FileFault } from "./contained.ts";
import type { Definition } from "./definition.ts";
import { isBroken } from "./load.ts";
import type { BrokenLayer, Layer } from "./load.ts";
import { planOf } from "./plan.ts";
import type { Plan } from "./plan.ts";
import type { ResolvedProfile } from "./profile.ts";

/** A profile that can be used: everything that routing and materialising need. */
export type UsableProfile = {
  profile: ResolvedProfile;
  plan: Plan;
  match: Definition["match"];
  /** The profile and those it extends, furthest first. */
  chain: Layer[];
};

type BrokenProfile = { profile: Profile & { error: string } };

/** Profiles by name, in the order of the names. */
export type Profiles = ReadonlyMap<string, UsableProfile | BrokenProfile>;

export const isUsable = (entry: UsableProfile | BrokenProfile): entry is UsableProfile => "chain" in entry;

/** Of a profile that says nothing; a profile that extends another takes the other's values instead. */
const defaults = { model: "sonnet", permission_mode: "default", worktree: true } as const;

export const resolveProfiles = (layers: Layers): Profiles => {
  const names = [...layers.keys()].toSorted((a, b) => (a < b ? -1 : 1));
  return new Map(
    names.flatMap((name) => {
      const last = layers.get(name)?.at(-1);
      return last === undefined ? [] : [[name, resolveProfile(last, layers)]];
    }),
  );
};

/** Applies `extends`, defaults and the rules that join several keys. */
const resolveProfile = (layer: Layer | BrokenLayer, layers: Layers): UsableProfile | BrokenProfile => {
  if (isBroken(layer)) return brokenProfile(layer, layer.fault);
  try {
    return usableProfile(layer, lineage(layer, layers));
  } catch (error) {
    if (error instanceof FileFault) return brokenProfile(layer, error);
    throw error;
  }
};

const usableProfile = (layer: Layer, chain: Layer[]): UsableProfile => {
  const definition = inherit(chain);
  const readOnly = definition.read_only ?? false;
  const autoPr = definition.auto_pr ?? false;
  const plan = planOf({ block: definition.claude ?? {}, readOnly, autoPr, defaults, chain });
  const { block } = plan;
  return {
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
    plan,
    match: definition.match,
    chain,
  };
};

const sourceOf = ({ source: { root, parts, file } }: Layer | BrokenLayer): string =>
  root.name === "bundled" ? root.name : (parts ?? file);

const brokenProfile = (layer: Layer | BrokenLayer, fault: FileFault): BrokenProfile => ({
  profile: {
    name: layer.name,
    description: "",
    model: "",
    max_turns: null,
    worktree: false,
    auto_pr: false,
    permission_mode: "",
    source: sourceOf(layer),
    error: fault.message,
  },
});
