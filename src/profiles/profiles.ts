import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import { Profile } from "../contract/profile.ts";
import { catalogReader } from "./catalog.ts";
import { FileFault, isInside, readMcpServers } from "./contained.ts";
import type { JsonObject } from "./contained.ts";
import { contentOf, copiedFiles } from "./copied-files.ts";
import { discardConfigDirectory, materialise, placesOf } from "./materialise.ts";
import { ProfileError } from "./profile.ts";
import type { Profiles } from "./profile.ts";
import { isUsable, resolveProfiles } from "./resolve.ts";
import { profileRoots } from "./roots.ts";
import type { Root } from "./roots.ts";
import { choose } from "./route.ts";
import { findTranscript } from "./transcripts.ts";

type Request = {
  settings: Pick<Settings, "sharedFsRoot" | "defaultProfile" | "agentCliTimeout">;
  /** Home directory of the service's user. */
  home: string;
  /** Milliseconds. */
  now?: () => number;
  /** Directories to read profiles from, later wins. */
  roots?: Root[];
};

export const createProfiles = ({ settings, home, now = Date.now, roots }: Request): Profiles => {
  const { sharedFsRoot, defaultProfile, agentCliTimeout } = settings;
  const places = placesOf({ home, sharedFsRoot });
  const catalog = catalogReader({
    roots: roots ?? profileRoots({ home, sharedFsRoot }),
    make: resolveProfiles,
    now,
  });
  return {
    list: async () => [...(await catalog()).values()].map(({ profile }) => Profile.parse(profile)),
    route: async (request) => {
      const { entry, rule } = choose(await catalog(), { ...request, fallback: defaultProfile });
      return { ...entry.profile, rule };
    },
    checkMcpFile: async (filePath) => {
      await requestedMcpServers(filePath, sharedFsRoot).catch((error: unknown) => {
        throw error instanceof ProfileError
          ? new ServiceError("invalid_request", error.message, { cause: error })
          : error;
      });
    },
    pin: async (name) => {
      const entry = (await catalog()).get(name);
      if (entry === undefined)
        throw new ProfileError("profile_invalid", `Profile ${name} is gone since the task was submitted`);
      if (!isUsable(entry)) throw unusable(name, entry.profile.error);
      const { profile, plan, chain } = entry;
      return {
        ...profile,
        materialise: async ({ jobId, worktreePath, worktreeId, repoKey, filePath }) => {
          const requested = await requestedMcpServers(filePath, sharedFsRoot);
          const files = await copiedFiles(chain)
            .then(contentOf)
            .catch((error: unknown) => {
              throw error instanceof FileFault ? unusable(name, error.message, error) : error;
            });
          return materialise(places, {
            id: jobId,
            plan: { ...plan, mcpServers: { ...plan.mcpServers, ...requested } },
            files,
            worktree: profile.worktree ? { id: worktreeId, path: worktreePath } : null,
            profile: name,
            repoKey,
            timeoutSeconds: plan.block.timeout ?? agentCliTimeout,
          });
        },
      };
    },
    discard: (jobId) => discardConfigDirectory(places, jobId),
    findTranscript: (sessionId) => findTranscript(places.projects, sessionId),
  };
};

const unusable = (name: string, fault: string, cause?: unknown): ProfileError =>
  new ProfileError("profile_invalid", `Profile ${name} cannot be used: ${fault}`, { cause });

/**
 * The servers of the MCP file that a request names. A relative path is taken from the shared root.
 * @throws ProfileError `mcp_config_invalid`
 */
const requestedMcpServers = async (filePath: string, sharedFsRoot: string | null): Promise<JsonObject> => {
  if (filePath === "") return {};
  const invalid = (message: string, cause?: unknown) =>
    new ProfileError("mcp_config_invalid", message, { cause });
  if (sharedFsRoot === null) {
    throw invalid(
      "file_path needs SERVICE_SHARED_FS_ROOT, under which the file must lie; set it, or leave file_path out",
    );
  }
  if (filePath.includes("\0")) throw invalid("file_path holds a NUL character");
  const path = resolve(sharedFsRoot, filePath);
  // Said before the file is touched, so that the answer tells nothing about files elsewhere.
  if (!isInside(sharedFsRoot, path) && !isInside(await realRoot(sharedFsRoot), path)) {
    throw invalid(`file_path must lie under SERVICE_SHARED_FS_ROOT (${sharedFsRoot}); ${path} does not`);
  }
  const servers = await readMcpServers(sharedFsRoot, path).catch((error: unknown) => {
    throw error instanceof FileFault ? invalid(`file_path: ${error.message}`, error) : error;
  });
  if (servers === null) throw invalid(`file_path: there is no file ${path}`);
  return servers;
};

const realRoot = (root: string): Promise<string> => realpath(root).catch(() => root);
