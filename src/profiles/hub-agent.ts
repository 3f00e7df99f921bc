import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { ServiceError } from "../contract/errors.ts";
import type { Settings } from "../config/variables.ts";
import type { Log } from "../lib/log.ts";
import { suggestion } from "../lib/nearest.ts";
import type { AgentPackage, LoadedAgent } from "./agent-package.ts";
import { catalogReader, lineage, type Layers } from "./catalog.ts";
import { toArguments } from "./claude-block.ts";
import { FileFault } from "./contained.ts";
import { copiedFiles, type CopiedFile } from "./copied-files.ts";
import { isBroken, type Layer } from "./load.ts";
import {
  discardConfigDirectories,
  discardConfigDirectory,
  materialise,
  directoriesOf,
  findTranscript,
} from "./materialise.ts";
import { loadPackage, type Plan } from "./plan.ts";
import { hubRoot, profileRoots, type CompanionReader } from "./roots.ts";
import { modelNames } from "./model-names.ts";
import { allowedOf, type Boundary } from "./sandbox-policy.ts";

type AgentSettings = Pick<
  Settings,
  | "hubAgent"
  | "hubUrl"
  | "sharedFsRoot"
  | "agentModeModel"
  | "agentModeMaxTurns"
  | "agentModePermissionMode"
  | "agentModeTimeout"
>;

type PackageRequest = {
  settings: AgentSettings;
  companions: CompanionReader;
  boundary: Boundary;
  /** Home directory of the service's user. */
  home: string;
  /** Milliseconds. */
  now?: () => number;
  log: Pick<Log, "warn">;
};

/**
 * The agent that the settings name. Reads nothing before `read` is called: a service that calls it at start learns
 * whether the agent is usable.
 */
export const createAgentPackage = (request: PackageRequest): AgentPackage => {
  const { settings, companions, boundary, home, now = Date.now, log } = request;
  const { sharedFsRoot } = settings;
  const name = settings.hubAgent ?? "default";
  const directories = directoriesOf({ home, sharedFsRoot, now, log });
  const latest = catalogReader<LoadedPackage>({
    roots: async () => {
      const hub = await hubRoot(companions);
      const profiles = await profileRoots({ home, sharedFsRoot, companions });
      return hub === null ? profiles : [...profiles, hub];
    },
    make: (layers, roots) => {
      const hub = roots.find((root) => root.name === "hub");
      const hubPath = hub === undefined ? null : dirname(hub.path);
      return load(name, settings, { layers, boundary, hubPath });
    },
    now,
  });
  const loadedNow = async (): Promise<LoadedPackage> => {
    try {
      return await latest();
    } catch (cause) {
      if (!(cause instanceof FileFault)) throw cause;
      if (settings.hubUrl !== null && (await companions("hub")) === null)
        throw new ServiceError("starting", notFetched(name, settings.hubUrl), { cause });
      throw new ServiceError("invalid_profile", `Agent ${name} cannot be used: ${cause.message}`, { cause });
    }
  };

  return {
    name,
    profile: settings.hubAgent ?? "code",
    read: async () => (await loadedNow()).agent,
    materialise: async ({ processId, model, maxTurns, disabledMcpServers }) => {
      const { agent, plan, files } = await loadedNow();
      const block = {
        ...plan.block,
        ...(maxTurns !== null && { max_turns: maxTurns }),
        ...(model !== null && { model }),
      };
      // An unknown server name is fine: callers send one list to several agents.
      const servers = Object.entries(plan.mcpServers).filter(([each]) => !disabledMcpServers.includes(each));
      return materialise(directories, {
        id: processId,
        plan: { ...plan, block, mcpServers: Object.fromEntries(servers) },
        files,
        worktree: null,
        profile: name,
        repoKey: null,
        timeoutSeconds: agent.timeoutSeconds,
        allowed: allowedOf(boundary.serviceWide, plan.sandbox),
      });
    },
    discard: (processId) => discardConfigDirectory(directories, processId),
    discardEarlier: (prefix) => discardConfigDirectories(directories, prefix),
    findTranscript: (sessionId, cwd) => findTranscript(directories.projects, sessionId, cwd),
    noteSession: (sessionId) => directories.transcripts.noteSession(sessionId, null),
  };
};

/** An agent with everything that its processes get, in memory: all of them start from one state of the files. */
type LoadedPackage = { agent: LoadedAgent; plan: Plan; files: readonly CopiedFile[] };

const notFetched = (name: string, url: string): string =>
  `The agent ${name} is not loaded yet: the agent hub ${url} could not be fetched so far`;

/** The agent with those that it extends, furthest first. @throws FileFault */
const chainOf = (layers: Layers, hubPath: string | null, { hubAgent }: AgentSettings): Layer[] => {
  if (hubAgent === null) return defaultChain(layers);
  if (hubPath === null) {
    const wayOut = "set one of them to the agent hub, or leave HUB_AGENT out";
    throw new FileFault(
      `HUB_AGENT is ${hubAgent}, but neither SERVICE_HUB_PATH nor SERVICE_HUB_URL is set; ${wayOut}`,
    );
  }
  const agents = [...layers.values()].flat().filter(({ source }) => source.root.name === "hub");
  // An unreadable directory is listed itself.
  const agent = agents.find(({ name, source }) => name === hubAgent || name === source.root.path);
  if (agent === undefined) throw noAgent(hubAgent, hubPath, agents.map(({ name }) => name).toSorted());
  if (isBroken(agent)) throw agent.fault;
  return lineage(agent, layers);
};

const noAgent = (name: string, hubPath: string, known: readonly string[]): FileFault => {
  const agents = join(hubPath, "agents");
  if (known.length === 0)
    return new FileFault(
      `The agent hub ${hubPath} is no directory with agents/; check SERVICE_HUB_PATH or SERVICE_HUB_URL`,
    );
  const choice = `there are ${known.slice(0, 50).join(", ")}${suggestion(name, known)}`;
  return new FileFault(`there is no directory ${join(agents, name)}; ${choice}`);
};

/**
 * The agent `default` is this installation's profile `code`, without the bundled addition to the system prompt: that
 * speaks of a branch and of an absent user, and a chat has neither.
 */
const defaultChain = (layers: Layers): Layer[] => {
  const code = layers.get("code")?.findLast(({ source }) => source.root.name !== "hub");
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

/**
 * The files of a hub agent win over AGENT_MODE_*; AGENT_MODE_* win over the profile of the agent `default`. An
 * addition to the system prompt goes the way of `system.md`, not into the arguments: the CLI accepts one of the two.
 * @throws FileFault
 */
const load = async (
  name: string,
  settings: AgentSettings,
  { layers, boundary, hubPath }: { layers: Layers; boundary: Boundary; hubPath: string | null },
): Promise<LoadedPackage> => {
  const chain = chainOf(layers, hubPath, settings);
  const operators = {
    model: settings.agentModeModel,
    max_turns: settings.agentModeMaxTurns,
    permission_mode: settings.agentModePermissionMode,
    timeout: settings.agentModeTimeout,
    worktree: false,
  };
  const { permission_mode: _, ...limits } = operators;
  const { definition, plan } = loadPackage({
    chain,
    defaults: operators,
    opensPullRequests: false,
    boundary,
    blockOf: ({ append_system_prompt: _appended, ...given }, readOnly) =>
      settings.hubAgent === null ? { ...given, ...(readOnly ? limits : operators) } : given,
  });
  const appended = definition.claude?.append_system_prompt ?? null;
  const prompt = chain.findLast((layer) => layer.prompt !== null)?.prompt ?? null;
  const systemPrompt = [appended, prompt].filter((text) => text !== null).join("\n\n") || null;
  const files = await copiedFiles(chain);
  const models = await modelNames(name, hubPath);
  return {
    agent: {
      fingerprint: fingerprintOf({ plan, systemPrompt, files }),
      systemPrompt,
      timeoutSeconds: plan.block.timeout ?? settings.agentModeTimeout,
      budgetDayUsd: definition.budget_day_usd ?? null,
      models: [...models.keys()],
      cliModel: (model) => models.get(model),
    },
    plan,
    files,
  };
};

/** Of all that a process is started with, and nothing else: a changed alias or description ends no process. */
const fingerprintOf = ({
  plan: { block, settings, mcpServers, sandbox },
  systemPrompt,
  files,
}: Pick<LoadedPackage, "plan" | "files"> & { systemPrompt: string | null }): string => {
  const hash = createHash("sha256");
  hash.update(JSON.stringify([toArguments(block), settings, mcpServers, sandbox, systemPrompt]));
  for (const { to, bytes, executable } of files) {
    hash.update(`\0${JSON.stringify([to, executable, bytes.length])}\0`);
    hash.update(bytes);
  }
  return hash.digest("hex");
};
