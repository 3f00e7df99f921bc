import { ServiceError } from "../contract/errors.ts";
import type { Settings } from "../config/variables.ts";
import type { AgentPackage } from "./agent-package.ts";
import { toArguments } from "./arguments.ts";
import { catalogReader } from "./catalog.ts";
import type { Catalog } from "./catalog.ts";
import {
  discardConfigDirectories,
  discardConfigDirectory,
  writeConfigDirectory,
} from "./config-directory.ts";
import { FileFault } from "./contained.ts";
import { agentNameOf, loadPackage } from "./loaded-package.ts";
import type { AgentSettings, LoadedPackage } from "./loaded-package.ts";
import { marksOf } from "./marks.ts";
import type { Watched } from "./marks.ts";
import { placesOf } from "./places.ts";
import { remembered } from "./remembered.ts";
import { profileRoots } from "./roots.ts";
import { serviceSettings } from "./service-settings.ts";
import { findTranscript } from "./transcripts.ts";

type Request = {
  settings: AgentSettings & Pick<Settings, "sharedFsRoot">;
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
  const { sharedFsRoot } = settings;
  const name = agentNameOf(settings);
  const places = placesOf({ home, sharedFsRoot });
  const catalog = catalogReader(profileRoots({ home, sharedFsRoot }), now);
  const latest = remembered<State>(
    async (previous) => refreshed(previous, { settings, catalog: await catalog() }),
    now,
  );
  const loaded = async (): Promise<LoadedPackage> => {
    const { outcome } = await latest();
    if (!(outcome instanceof FileFault)) return outcome;
    const message = `Agent ${name} cannot be used: ${outcome.message}`;
    throw new ServiceError("invalid_profile", message, { cause: outcome });
  };

  return {
    name,
    read: async () => (await loaded()).agent,
    materialise: async ({ processId, model, maxTurns, disabledMcpServers }) => {
      const { agent, plan, files } = await loaded();
      const { configDir, settingsFile, mcpConfigFile } = await writeConfigDirectory(places, {
        id: processId,
        files: files.values(),
        settings: plan.settings,
        ownSettings: serviceSettings(null),
        mcpServers: Object.fromEntries(
          // A name that is no server's is fine: callers send one list to several agents.
          Object.entries(plan.mcpServers).filter(([server]) => !disabledMcpServers.includes(server)),
        ),
      });
      return {
        configDir,
        args:
          maxTurns === null && model === null
            ? plan.args
            : toArguments({
                ...plan.block,
                ...(maxTurns !== null && { max_turns: maxTurns }),
                ...(model !== null && { model }),
              }),
        model: model ?? plan.block.model,
        settingsFile,
        mcpConfigFile,
        worktreeName: null,
        bypassPermissions: plan.bypassPermissions,
        profile: name,
        repoKey: null,
        timeoutSeconds: agent.timeoutSeconds,
      };
    },
    discard: (processId) => discardConfigDirectory(places, processId),
    discardLeft: (prefix) => discardConfigDirectories(places, prefix),
    findTranscript: (sessionId) => findTranscript(places.projects, sessionId),
  };
};

/** The agent, or why there is none; with what was looked at for it, and how that looked before it was read. */
type State = {
  outcome: LoadedPackage | FileFault;
  catalog: Catalog;
  watched: readonly Watched[];
  marks: string;
};

const refreshed = async (
  previous: State | null,
  { settings, catalog }: { settings: AgentSettings; catalog: Catalog },
): Promise<State> => {
  // A fault may pass without a change of the files (too many were open, say): then everything is read again.
  if (previous !== null && previous.catalog === catalog && !(previous.outcome instanceof FileFault)) {
    const marks = await marksOf(previous.watched);
    if (marks.join("\n") === previous.marks) return previous;
  }
  const watched: Watched[] = [];
  const marks: string[] = [];
  const watch = async (more: readonly Watched[]): Promise<void> => {
    watched.push(...more);
    marks.push(...(await marksOf(more)));
  };
  const outcome = await loadPackage({ settings, catalog, watch }).catch((error: unknown) => {
    if (error instanceof FileFault) return error;
    throw error;
  });
  return { outcome, catalog, watched, marks: marks.join("\n") };
};
