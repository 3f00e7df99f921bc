import type { Profile } from "../contract/profile.ts";
import { argumentFault, bypassesPermissions, toArguments } from "./arguments.ts";
import type { ClaudeBlock } from "./claude-block.ts";
import { inherit, lineage } from "./inherit.ts";
import type { Layers } from "./inherit.ts";
import { isBroken } from "./load.ts";
import type { BrokenLayer, Layer } from "./load.ts";
import type { JsonObject } from "./json-files.ts";
import { matcher } from "./match.ts";
import type { Matcher } from "./match.ts";
import type { ResolvedProfile } from "./profile.ts";
import { asReadOnly } from "./read-only.ts";

/** A profile that can be used: everything that routing and materialising need. */
export type UsableProfile = {
  profile: ResolvedProfile;
  fits: Matcher;
  args: string[];
  bypassPermissions: boolean;
  /** Null: the service's own limit. */
  timeoutSeconds: number | null;
  /** The profile and those it extends, furthest first. */
  chain: Layer[];
  settings: JsonObject;
  mcpServers: JsonObject;
};

export type BrokenProfile = { profile: Profile & { error: string } };

export const isUsable = (entry: UsableProfile | BrokenProfile): entry is UsableProfile => "chain" in entry;

/** Of a profile that says nothing; a profile that extends another takes the other's values instead. */
const defaults = { model: "sonnet", permission_mode: "default", worktree: true } as const;

/** The service makes and removes worktrees; with these the agent could leave or remove the job's own. */
const worktreeTools = ["EnterWorktree", "ExitWorktree"];

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
  const given: ClaudeBlock = definition.claude ?? {};
  const checked = readOnly ? asReadOnly(given, autoPr) : { block: given };
  if ("fault" in checked) return broken(checked.fault);
  const block = withDefaults(checked.block);
  const args = toArguments(block);
  const settings = merged(chain.map((link) => link.settings));
  const fault = argumentFault(args) ?? hookFault(settings);
  if (fault !== null) return broken(fault);

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
    fits: matcher(definition.match),
    args,
    bypassPermissions: bypassesPermissions(block.permission_mode),
    timeoutSeconds: block.timeout ?? null,
    chain,
    settings,
    mcpServers: merged(chain.map(({ mcpServers }) => mcpServers)),
  };
};

const withDefaults = (block: ClaudeBlock) => ({
  ...block,
  model: block.model ?? defaults.model,
  permission_mode: block.permission_mode ?? defaults.permission_mode,
  worktree: block.worktree ?? defaults.worktree,
  disallowed_tools: [...new Set([...(block.disallowed_tools ?? []), ...worktreeTools])],
});

const merged = (objects: readonly JsonObject[]): JsonObject =>
  objects.reduce((parent, child) => ({ ...parent, ...child }), {});

/** A second hook of this kind would put the agent into another directory than the job's worktree. */
const hookFault = ({ hooks }: JsonObject): string | null => {
  const own = ["WorktreeCreate", "WorktreeRemove"].find(
    (event) => typeof hooks === "object" && hooks !== null && event in hooks,
  );
  return own === undefined
    ? null
    : `.claude/settings.json must not have a ${own} hook: the service makes the worktrees`;
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
