import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { AgentLaunch } from "../agents/agent.ts";
import { FileFault, readContained } from "./contained.ts";
import { copiedFiles } from "./copied-files.ts";
import type { CopiedFile } from "./copied-files.ts";
import { requestedMcpServers } from "./mcp-file.ts";
import { configDirectory } from "./places.ts";
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
 * Writes the job's own config directory. It is made from nothing each time: a second attempt must not find what the
 * agent of the first may have left there.
 * @throws ProfileError
 */
export const materialise = async (
  usable: UsableProfile,
  request: MaterialiseRequest,
  { places, defaultTimeout }: Options,
): Promise<AgentLaunch> => {
  const { profile } = usable;
  const configDir = configDirectory(places, request.jobId);
  const requested = await requestedMcpServers(request.filePath, places.sharedFsRoot);
  const mcpServers = { ...usable.mcpServers, ...requested };
  const mcpConfigFile = Object.keys(mcpServers).length === 0 ? null : join(configDir, "service-mcp.json");
  const settingsFile = join(configDir, "service-settings.json");
  const ownSettings = serviceSettings(profile.worktree ? request.worktreePath : null);

  await rm(configDir, { recursive: true, force: true });
  await mkdir(places.projects, { recursive: true, mode: 0o700 });
  await mkdir(places.jobs, { recursive: true, mode: 0o700 });
  await mkdir(configDir, { mode: 0o700 });
  await symlink(places.projects, join(configDir, "projects"));
  await copyProfileFiles(usable, configDir);
  await writeJson(join(configDir, "settings.json"), usable.settings);
  await writeJson(settingsFile, ownSettings);
  if (mcpConfigFile !== null) await writeJson(mcpConfigFile, { mcpServers });

  return {
    configDir,
    args: usable.args,
    model: profile.model,
    settingsFile,
    mcpConfigFile,
    worktreeName: profile.worktree ? request.worktreeId : null,
    bypassPermissions: usable.bypassPermissions,
    profile: profile.name,
    repoKey: request.repoKey,
    timeoutSeconds: usable.timeoutSeconds ?? defaultTimeout,
  };
};

/** The directory's link to the shared transcripts is removed, not what it leads to. */
export const discard = (places: Places, jobId: string): Promise<void> =>
  rm(configDirectory(places, jobId), { recursive: true, force: true });

const copyProfileFiles = async ({ profile, chain }: UsableProfile, configDir: string): Promise<void> => {
  try {
    for (const file of await copiedFiles(chain)) await copyFile(file, configDir);
  } catch (error) {
    if (!(error instanceof FileFault)) throw error;
    throw new ProfileError("profile_invalid", `Profile ${profile.name} cannot be used: ${error.message}`, {
      cause: error,
    });
  }
};

const copyFile = async ({ root, from, to, bytes }: CopiedFile, configDir: string): Promise<void> => {
  const file = await readContained({ root, path: from, maxBytes: bytes });
  // Removed since it was listed: as if it had never been there.
  if (file === null) return;
  const target = join(configDir, to);
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  // Skills bring scripts that are run.
  await writeFile(target, file.bytes, { mode: file.executable ? 0o700 : 0o600, flag: "wx" });
};

const writeJson = (path: string, value: Record<string, unknown>): Promise<void> =>
  writeFile(path, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600, flag: "wx" });
