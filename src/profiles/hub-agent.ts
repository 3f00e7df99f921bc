import { createHash } from "node:crypto";
import { join } from "node:path";
import { ServiceError } from "../contract/errors.ts";
import type { Settings } from "../config/variables.ts";
import { suggestion } from "../lib/nearest.ts";
import type { AgentPackage, LoadedAgent } from "./agent-package.ts";
import { catalogReader, inherit, lineage } from "./catalog.ts";
import type { Layers } from "./catalog.ts";
import { toArguments } from "./claude-block.ts";
import type { ClaudeBlock } from "./claude-block.ts";
import { FileFault } from "./contained.ts";
import { contentOf, copiedFiles } from "./copied-files.ts";
import type { FileContent } from "./copied-files.ts";
import { isBroken, marksOf } from "./load.ts";
import type { Layer } from "./load.ts";
import { discardConfigDirectories, discardConfigDirectory, materialise, placesOf } from "./materialise.ts";
import { aliasesFile, modelNames } from "./model-names.ts";
import { planOf } from "./plan.ts";
import type { Plan } from "./plan.ts";
import { remembered } from "./remembered.ts";
import { hubRoot, profileRoots } from "./roots.ts";
import { findTranscript } from "./transcripts.ts";

type AgentSettings = Pick<
  Settings,
  | "hubAgent"
  | "hubPath"
  | "sharedFsRoot"
  | "agentModeModel"
  | "agentModeMaxTurns"
  | "agentModePermissionMode"
  | "agentModeTimeout"
>;

type Request = {
  settings: AgentSettings;
  /** Home directory of the service's user. */
  home: string;
  /** Milliseconds. */
  now?: () => number;
};

/**
 * The agent that the settings name. Nothing is read before `read` is called: a service that calls it at its start learns
 * whether the agent can be used.
 */
export const createAgentPackage = ({ settings, home, now = Date.now }: Request): AgentPackage => {
  const { sharedFsRoot, hubAgent, hubPath } = settings;
  const name = agentNameOf(settings);
  const places = placesOf({ home, sharedFsRoot });
  const chainNow = catalogReader({
    roots: [
      ...profileRoots({ home, sharedFsRoot }),
      ...(hubAgent === null || hubPath === null ? [] : [hubRoot(hubPath)]),
    ],
    make: (layers) => chainOf(layers, settings),
    now,
  });
  const latest = remembered<State>(async (previous) => {
    const chain = await chainNow();
    const copied = await copiedFiles(chain);
    const marks = JSON.stringify([copied, hubPath !== null && (await marksOf([aliasesFile(hubPath)]))]);
    if (previous?.chain === chain && previous.marks === marks) return previous;
    return { chain, marks, loaded: await loadPackage(chain, await contentOf(copied), settings) };
  }, now);
  const loadedNow = async (): Promise<LoadedPackage> => {
    try {
      return (await latest()).loaded;
    } catch (cause) {
      if (!(cause instanceof FileFault)) throw cause;
      throw new ServiceError("invalid_profile", `Agent ${name} cannot be used: ${cause.message}`, { cause });
    }
  };

  return {
    name,
    read: async () => (await loadedNow()).agent,
    materialise: async ({ processId, model, maxTurns, disabledMcpServers }) => {
      const { agent, plan, files } = await loadedNow();
      const block = {
        ...plan.block,
        ...(maxTurns !== null && { max_turns: maxTurns }),
        ...(model !== null && { model }),
      };
      // A name that is no server's is fine: callers send one list to several agents.
      const servers = Object.entries(plan.mcpServers).filter(([each]) => !disabledMcpServers.includes(each));
      return materialise(places, {
        id: processId,
        plan: { ...plan, block, mcpServers: Object.fromEntries(servers) },
        files,
        worktree: null,
        profile: name,
        repoKey: null,
        timeoutSeconds: agent.timeoutSeconds,
      });
    },
    discard: (processId) => discardConfigDirectory(places, processId),
    discardLeft: (prefix) => discardConfigDirectories(places, prefix),
    findTranscript: (sessionId) => findTranscript(places.projects, sessionId),
  };
};

/** An agent with everything that its processes get, in memory: all of them are started from one state of the files. */
type LoadedPackage = { agent: LoadedAgent; plan: Plan; files: readonly FileContent[] };

/** With what it was made of, and how that looked before it was read. */
type State = { chain: readonly Layer[]; marks: string; loaded: LoadedPackage };

const agentNameOf = ({ hubAgent }: Pick<AgentSettings, "hubAgent">): string => hubAgent ?? "default";

/** The agent and those it extends, furthest first. @throws FileFault */
const chainOf = (layers: Layers, { hubAgent, hubPath }: AgentSettings): Layer[] => {
  if (hubAgent === null) return defaultChain(layers);
  if (hubPath === null) {
    const wayOut = "set it to a checkout of the agent hub, or leave HUB_AGENT out";
    throw new FileFault(`HUB_AGENT is ${hubAgent}, but SERVICE_HUB_PATH is not set; ${wayOut}`);
  }
  const agents = [...layers.values()].flat().filter(({ source }) => source.root.name === "hub");
  // A directory that cannot be read is listed itself.
  const agent = agents.find(({ name, source }) => name === hubAgent || name === source.root.path);
  if (agent === undefined) throw noAgent(hubAgent, hubPath, agents.map(({ name }) => name).toSorted());
  if (isBroken(agent)) throw agent.fault;
  return lineage(agent, layers);
};

const noAgent = (name: string, hubPath: string, known: readonly string[]): FileFault => {
  const agents = join(hubPath, "agents");
  if (known.length === 0)
    return new FileFault(
      `SERVICE_HUB_PATH is ${hubPath}, which is no directory with agents/; check the agent hub out there`,
    );
  const choice = `there are ${known.slice(0, 50).join(", ")}${suggestion(name, known)}`;
  return new FileFault(`there is no directory ${join(agents, name)}; ${choice}`);
};

/**
 * The agent `default` is the profile `code`, as it is here. The text that the bundled one adds to the system prompt is
 * left out: it speaks of a branch and of nobody being there, and a chat has neither.
 */
const defaultChain = (layers: Layers): Layer[] => {
  const code = layers.get("code")?.at(-1);
  if (code === undefined || isBroken(code)) {
    const fault = code === undefined ? "it is missing" : code.fault.message;
    throw new FileFault(`it is made of the profile code, which cannot be used: ${fault}`);
  }
  return lineage(code, layers).map((layer) => {
    if (layer.source.root.name !== "bundled") return layer;
    const claude = { ...layer.definition.claude, append_system_prompt: null };
    return { ...layer, definition: { ...layer.definition, claude } };
  });
};

/** Reads the rest of the agent. @throws FileFault */
const loadPackage = async (
  chain: readonly Layer[],
  files: readonly FileContent[],
  settings: AgentSettings,
): Promise<LoadedPackage> => {
  const { plan, appended } = plannedOf(chain, settings);
  const system = chain.findLast(({ prompt }) => prompt !== null)?.prompt ?? null;
  const texts = [appended, system].filter((text) => text !== null);
  const systemPrompt = texts.length === 0 ? null : texts.join("\n\n");
  const models = await modelNames(agentNameOf(settings), settings.hubPath);
  return {
    agent: {
      fingerprint: fingerprintOf({ plan, systemPrompt, files }),
      systemPrompt,
      timeoutSeconds: plan.block.timeout ?? settings.agentModeTimeout,
      models: [...models.keys()],
      cliModel: (model) => models.get(model),
    },
    plan,
    files,
  };
};

/**
 * Of an agent of the hub its files win over AGENT_MODE_*; of the agent `default` AGENT_MODE_* win over the profile. What
 * is appended to the system prompt goes the way of `system.md`, not into the arguments: the CLI takes one of the two.
 */
const plannedOf = (
  chain: readonly Layer[],
  settings: AgentSettings,
): { plan: Plan; appended: string | null } => {
  const definition = inherit(chain);
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
  return { plan: planOf({ block, readOnly, autoPr: false, defaults: operators, chain }), appended };
};

/** Of all that a process is started with, and nothing else: an alias or a description that changes ends no process. */
const fingerprintOf = ({
  plan: { block, settings, mcpServers },
  systemPrompt,
  files,
}: Pick<LoadedPackage, "plan" | "files"> & { systemPrompt: string | null }): string => {
  const hash = createHash("sha256");
  hash.update(JSON.stringify([toArguments(block), settings, mcpServers, systemPrompt]));
  for (const { to, bytes, executable } of files) {
    hash.update(`\0${JSON.stringify([to, executable, bytes.length])}\0`);
    hash.update(bytes);
  }
  return hash.digest("hex");
};
