import { argumentFault, bypassesPermissions, toArguments } from "./arguments.ts";
import type { ClaudeBlock } from "./claude-block.ts";
import type { JsonObject } from "./json-files.ts";
import { asReadOnly } from "./read-only.ts";

/** What a profile or an agent asks of the CLI, all rules applied. */
export type Plan = {
  block: ClaudeBlock & { model: string; permission_mode: string; worktree: boolean };
  args: string[];
  bypassPermissions: boolean;
  /** Null: the service's own limit. */
  timeoutSeconds: number | null;
  settings: JsonObject;
  mcpServers: JsonObject;
};

type Request = {
  block: ClaudeBlock;
  readOnly: boolean;
  autoPr: boolean;
  /** Values of keys that the block leaves out. */
  defaults: ClaudeBlock & { model: string; permission_mode: NonNullable<ClaudeBlock["permission_mode"]> };
  /** Furthest parent first. */
  layers: readonly { settings: JsonObject; mcpServers: JsonObject }[];
};

/** The service makes and removes worktrees; with these the agent could leave or remove the job's own. */
const worktreeTools = ["EnterWorktree", "ExitWorktree"];

/** Defaults and the rules that join several keys; or the fault that they find. */
export const planOf = ({
  block: given,
  readOnly,
  autoPr,
  defaults,
  layers,
}: Request): Plan | { fault: string } => {
  const checked = readOnly ? asReadOnly(given, autoPr) : { block: given };
  if ("fault" in checked) return checked;
  const block = {
    ...defaults,
    ...withoutEmpty(checked.block),
    model: checked.block.model ?? defaults.model,
    permission_mode: checked.block.permission_mode ?? defaults.permission_mode,
    worktree: checked.block.worktree ?? defaults.worktree ?? true,
    disallowed_tools: [...new Set([...(checked.block.disallowed_tools ?? []), ...worktreeTools])],
  };
  const args = toArguments(block);
  const settings = merged(layers.map((layer) => layer.settings));
  const fault = argumentFault(args) ?? hookFault(settings);
  if (fault !== null) return { fault };
  return {
    block,
    args,
    bypassPermissions: bypassesPermissions(block.permission_mode),
    timeoutSeconds: block.timeout ?? null,
    settings,
    mcpServers: merged(layers.map(({ mcpServers }) => mcpServers)),
  };
};

/** Null stands for "not set". */
const withoutEmpty = (block: ClaudeBlock): ClaudeBlock =>
  Object.fromEntries(Object.entries(block).filter(([, value]) => value !== null && value !== undefined));

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
