import type { AgentLaunch } from "../agents/agent.ts";
import { writeConfigDirectory } from "./config-directory.ts";
import { FileFault } from "./contained.ts";
import { contentOf, copiedFiles } from "./copied-files.ts";
import type { FileContent } from "./copied-files.ts";
import { requestedMcpServers } from "./mcp-file.ts";
import type { Places } from "./places.ts";
import { ProfileError } from "./profile.ts";
import type { MaterialiseRequest } from "./profile.ts";
import type { UsableProfile } from "./resolve.ts";
import { serviceSettings } from "./service-settings.ts";

type Options = {
  places: Places;
  /** Seconds, of a profile that sets none. */
  defaultTimeout: number;
};

/**
 * Writes the job's own config directory.
 * @throws ProfileError
 */
export const materialise = async (
  usable: UsableProfile,
  request: MaterialiseRequest,
  { places, defaultTimeout }: Options,
): Promise<AgentLaunch> => {
  const { profile } = usable;
  const requested = await requestedMcpServers(request.filePath, places.sharedFsRoot);
  const directory = await writeConfigDirectory(places, {
    id: request.jobId,
    files: profileFiles(usable),
    settings: usable.settings,
    ownSettings: serviceSettings(profile.worktree ? request.worktreePath : null),
    mcpServers: { ...usable.mcpServers, ...requested },
  });
  return {
    ...directory,
    args: usable.args,
    model: profile.model,
    worktreeName: profile.worktree ? request.worktreeId : null,
    bypassPermissions: usable.bypassPermissions,
    profile: profile.name,
    repoKey: request.repoKey,
    timeoutSeconds: usable.timeoutSeconds ?? defaultTimeout,
  };
};

const profileFiles = async function* ({
  profile,
  chain,
}: UsableProfile): AsyncGenerator<FileContent, void, void> {
  try {
    yield* contentOf(await copiedFiles(chain));
  } catch (error) {
    if (!(error instanceof FileFault)) throw error;
    throw new ProfileError("profile_invalid", `Profile ${profile.name} cannot be used: ${error.message}`, {
      cause: error,
    });
  }
};
