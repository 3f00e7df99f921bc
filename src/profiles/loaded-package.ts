import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import type { LoadedAgent } from "./agent-package.ts";
import { aliasesOf, readAliases } from "./aliases.ts";
import type { Catalog } from "./catalog.ts";
import type { ClaudeBlock } from "./claude-block.ts";
import { FileFault } from "./contained.ts";
import { contentOf, copiedFiles } from "./copied-files.ts";
import type { FileContent } from "./copied-files.ts";
import { defaultAgentName, defaultLayers } from "./default-agent.ts";
import { loadAgentLayers, watchedFilesOf } from "./hub-layers.ts";
import type { AgentLayers } from "./hub-layers.ts";
import { inherit } from "./inherit.ts";
import type { Watched } from "./marks.ts";
import { modelNames, ownModelNames } from "./model-names.ts";
import { planOf } from "./plan.ts";
import type { Plan } from "./plan.ts";

export type AgentSettings = Pick<
  Settings,
  | "hubAgent"
  | "hubPath"
  | "agentModeModel"
  | "agentModeMaxTurns"
  | "agentModePermissionMode"
  | "agentModeTimeout"
>;

/** An agent with everything that its processes get, in memory: all of them are started from one state of the files. */
export type LoadedPackage = { agent: LoadedAgent; plan: Plan; files: readonly FileContent[] };

type Request = {
  settings: AgentSettings;
  catalog: Catalog;
  /** Told of everything that the answer depends on, before it is read. */
  watch: (watched: readonly Watched[]) => Promise<void>;
};

export const agentNameOf = ({ hubAgent }: Pick<AgentSettings, "hubAgent">): string =>
  hubAgent ?? defaultAgentName;

/** Reads the agent anew. @throws FileFault */
export const loadPackage = async (request: Request): Promise<LoadedPackage> => {
  const { settings, watch } = request;
  const { layers, systemPrompt } = await layersOf(request);
  const { plan, appended } = plannedOf(layers, settings);
  const copied = layers.flatMap(({ candidate: { directory } }) => (directory === null ? [] : [directory]));
  await watch(copied.flatMap(watchedFilesOf));
  const files = await Array.fromAsync(contentOf(await copiedFiles(layers)));
  const texts = [appended, systemPrompt].filter((text) => text !== null);
  const prompt = texts.length === 0 ? null : texts.join("\n\n");
  return {
    agent: {
      fingerprint: fingerprintOf({ plan, prompt, files }),
      systemPrompt: prompt,
      timeoutSeconds: plan.timeoutSeconds ?? settings.agentModeTimeout,
      ...(await modelsOf(request)),
    },
    plan,
    files,
  };
};

const layersOf = async ({ settings, catalog, watch }: Request): Promise<AgentLayers> => {
  const { hubAgent, hubPath } = settings;
  if (hubAgent === null) return { layers: defaultLayers(catalog), systemPrompt: null };
  if (hubPath !== null) return loadAgentLayers({ hubPath, name: hubAgent, catalog, watch });
  const wayOut = "set it to a checkout of the agent hub, or leave HUB_AGENT out";
  throw new FileFault(`HUB_AGENT is ${hubAgent}, but SERVICE_HUB_PATH is not set; ${wayOut}`);
};

/**
 * Of an agent of the hub its files win over AGENT_MODE_*; of the agent `default` AGENT_MODE_* win over the profile. What
 * is appended to the system prompt goes the way of `system.md`, not into the arguments: the CLI takes one of the two.
 */
const plannedOf = (
  layers: readonly AgentLayers["layers"][number][],
  settings: AgentSettings,
): { plan: Plan; appended: string | null } => {
  const definition = inherit(layers);
  const readOnly = definition.read_only ?? false;
  const { append_system_prompt: appended = null, ...given } = definition.claude ?? {};
  const operators = {
    model: settings.agentModeModel,
    max_turns: settings.agentModeMaxTurns,
    permission_mode: settings.agentModePermissionMode,
    timeout: settings.agentModeTimeout,
    worktree: false,
  };
  const { permission_mode: _, ...limits } = operators;
  const winning: ClaudeBlock = readOnly ? limits : operators;
  const block = settings.hubAgent === null ? { ...given, ...winning } : given;
  const plan = planOf({ block, readOnly, autoPr: false, defaults: operators, layers });
  if ("fault" in plan) throw new FileFault(`${layers.at(-1)?.candidate.file}: ${plan.fault}`);
  return { plan, appended };
};

const modelsOf = async ({ settings, watch }: Request): Promise<Pick<LoadedAgent, "models" | "cliModel">> => {
  const agent = agentNameOf(settings);
  const own = ownModelNames(agent);
  if (settings.hubPath === null) return modelNames(own, new Map());
  const path = join(settings.hubPath, "aliases.yaml");
  await watch([{ path, deep: false }]);
  const aliases = await readAliases(settings.hubPath, path);
  return modelNames(own, aliasesOf(aliases, { agent, names: new Set(own.keys()), path }));
};

/** Of all that a process is started with, and nothing else: an alias or a description that changes ends no process. */
const fingerprintOf = ({
  plan: { args, settings, mcpServers },
  prompt,
  files,
}: Pick<LoadedPackage, "plan" | "files"> & { prompt: string | null }): string => {
  const hash = createHash("sha256");
  hash.update(JSON.stringify([args, settings, mcpServers, prompt]));
  for (const { to, bytes, executable } of files) {
    hash.update(`\0${JSON.stringify([to, executable, bytes.length])}\0`);
    hash.update(bytes);
  }
  return hash.digest("hex");
};
