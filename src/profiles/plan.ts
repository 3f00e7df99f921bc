import { argumentFault, type ClaudeBlock, toArguments } from "./claude-block.ts";
import { FileFault, type JsonObject } from "./contained.ts";
import type { JobOptions } from "../contract/run-options.ts";
import { inherit } from "./catalog.ts";
import type { Definition } from "./definition.ts";
import type { Layer } from "./load.ts";
import { refusalOf, type Boundary } from "./sandbox-policy.ts";

/** The CLI options of a profile or an agent, all rules applied. */
export type Plan = {
  block: ClaudeBlock & { model: string; permission_mode: string; worktree: boolean };
  settings: JsonObject;
  mcpServers: JsonObject;
  sandbox: Definition["sandbox"];
};

/** A profile or an agent with all that it extends, checked. */
export type Package = { definition: Definition; readOnly: boolean; plan: Plan };

type Request = {
  /** Furthest parent first. */
  chain: readonly Layer[];
  /** Values of keys that the block omits. */
  defaults: ClaudeBlock & {
    model: string;
    permission_mode: NonNullable<ClaudeBlock["permission_mode"]>;
    worktree: boolean;
  };
  /** False: `auto_pr` has no effect. */
  opensPullRequests: boolean;
  boundary: Boundary;
  /** What wins over the files. */
  blockOf?: (given: ClaudeBlock, readOnly: boolean) => ClaudeBlock;
};

/** Directories whose content others than the operator may write. */
const companions: readonly string[] = ["hooks", "bundle", "hub"];

/** The service makes and removes worktrees; with these tools the agent could leave or remove the job's own. */
const worktreeTools = ["EnterWorktree", "ExitWorktree"];

/** Loads a profile or an agent: applies `extends`, defaults and the rules that join several keys. @throws FileFault */
export const loadPackage = (request: Request): Package => {
  const { chain, defaults, opensPullRequests, boundary, blockOf = (block) => block } = request;
  const definition = inherit(chain);
  checkSandboxes(chain, boundary);
  const readOnly = definition.read_only ?? false;
  const file = chain.at(-1)?.source.file;
  const given = blockOf(definition.claude ?? {}, readOnly);
  const autoPr = opensPullRequests && (definition.auto_pr ?? false);
  const checked = readOnly ? asReadOnly(given, { autoPr, file }) : given;
  const block = {
    ...defaults,
    ...withoutEmpty(checked),
    model: checked.model ?? defaults.model,
    permission_mode: checked.permission_mode ?? defaults.permission_mode,
    worktree: checked.worktree ?? defaults.worktree,
    disallowed_tools: [...new Set([...(checked.disallowed_tools ?? []), ...worktreeTools])],
  };
  const settings = merged(chain.map((layer) => layer.settings));
  const fault = argumentFault(toArguments(block)) ?? hookFault(settings);
  if (fault !== null) throw new FileFault(`${file}: ${fault}`);
  const mcpServers = merged(chain.map((layer) => layer.mcpServers));
  return { definition, readOnly, plan: { block, settings, mcpServers, sandbox: definition.sandbox } };
};

/** @throws FileFault */
const checkSandboxes = (chain: readonly Layer[], boundary: Boundary): void => {
  for (const { definition, source } of chain) {
    const isCompanion = companions.includes(source.root.name);
    const hosts = definition.setup?.flatMap((setup) => setup.hosts ?? []);
    const fault =
      refusalOf(definition.sandbox ?? {}, { ...boundary, isCompanion }) ??
      refusalOf({ hosts }, { ...boundary, isCompanion })?.replace("sandbox.hosts", "setup.hosts");
    if (fault !== undefined && fault !== null) throw new FileFault(`${source.file}: ${fault}`);
  }
};

/** What the limits of a job may not exceed. */
export const limitsOf = ({ block }: Plan, agentCliTimeout: number) => ({
  timeout_seconds: block.timeout ?? agentCliTimeout,
  max_budget_usd: block.max_budget_usd ?? null,
  max_turns: block.max_turns ?? null,
});

/** The block with the options of a job. The profile may have become stricter since the job was accepted. */
export const withOptions = (plan: Plan, options: JobOptions, agentCliTimeout: number) => {
  const limits = limitsOf(plan, agentCliTimeout);
  const lower = (key: "max_budget_usd" | "max_turns"): number | null =>
    options[key] === null ? limits[key] : Math.min(options[key], limits[key] ?? Infinity);
  return {
    ...plan.block,
    model: options.model ?? plan.block.model,
    timeout: Math.min(options.timeout_seconds ?? Infinity, limits.timeout_seconds),
    max_budget_usd: lower("max_budget_usd"),
    max_turns: lower("max_turns"),
  };
};

/** Null means "not set". */
const withoutEmpty = (block: ClaudeBlock): ClaudeBlock =>
  Object.fromEntries(Object.entries(block).filter(([, value]) => value !== null && value !== undefined));

const merged = (objects: readonly JsonObject[]): JsonObject =>
  objects.reduce((parent, child) => ({ ...parent, ...child }), {});

/** A second hook of this kind would move the agent out of the job's worktree. */
const hookFault = ({ hooks }: JsonObject): string | null => {
  const own = ["WorktreeCreate", "WorktreeRemove"].find(
    (event) => typeof hooks === "object" && hooks !== null && event in hooks,
  );
  return own === undefined
    ? null
    : `.claude/settings.json must not have a ${own} hook: the service makes the worktrees`;
};

/** Tools that can change files: always denied to a read-only profile. */
const writingTools = ["Bash", "Edit", "Write", "NotebookEdit"];

const readingTools = ["Read", "Grep", "Glob"];

/** Modes that deny what is not allowed, and allow nothing by themselves. */
const strictModes = ["dontAsk", "plan", "default"];

/**
 * What `read_only: true` means for the CLI: reading tools only, unless the profile names others; writing tools denied;
 * and a mode that denies what would ask (tools of MCP servers too, until `allowed_tools` names them). A profile that
 * also asks for the opposite is an error rather than half read-only.
 */
const asReadOnly = (
  block: ClaudeBlock,
  { autoPr, file }: { autoPr: boolean; file: string | undefined },
): ClaudeBlock => {
  const mode = block.permission_mode ?? "dontAsk";
  const tools = block.tools ?? readingTools;
  const faults = [
    ...(autoPr ? ["auto_pr must be false"] : []),
    ...(strictModes.includes(mode)
      ? []
      : [`claude.permission_mode must be one of ${strictModes.join(", ")}`]),
    ...writersIn("tools", tools),
    ...writersIn("allowed_tools", block.allowed_tools ?? []),
  ];
  if (faults.length > 0) throw new FileFault(`${file}: read_only is true, so ${faults.join(", and ")}`);
  const denied = [...new Set([...(block.disallowed_tools ?? []), ...writingTools])];
  return { ...block, permission_mode: mode, tools, disallowed_tools: denied };
};

/** Entries may be `Bash(git log *)`, several in one text, or `default`, which is every tool. */
const writersIn = (key: string, entries: readonly string[]): string[] => {
  const named = entries.flatMap((entry) => entry.replaceAll(/\([^)]*\)/g, "").split(/[,\s]+/));
  const writers = [...writingTools, "default"].filter((tool) => named.includes(tool));
  return writers.length === 0 ? [] : [`claude.${key} must not name ${writers.join(", ")}`];
};
