import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import { catalogReader } from "./catalog.ts";
import { discardConfigDirectory } from "./config-directory.ts";
import { materialise } from "./materialise.ts";
import { requestedMcpServers } from "./mcp-file.ts";
import { placesOf } from "./places.ts";
import { ProfileError } from "./profile.ts";
import type { Profiles } from "./profile.ts";
import { isUsable } from "./resolve.ts";
import { profileRoots } from "./roots.ts";
import type { ProfileRoot } from "./roots.ts";
import { choose } from "./route.ts";
import { findTranscript } from "./transcripts.ts";

type Request = {
  settings: Pick<Settings, "sharedFsRoot" | "defaultProfile" | "agentCliTimeout">;
  /** Home directory of the service's user. */
  home: string;
  /** Milliseconds. */
  now?: () => number;
  /** Directories to read profiles from, later wins. */
  roots?: ProfileRoot[];
};

export const createProfiles = ({ settings, home, now = Date.now, roots }: Request): Profiles => {
  const { sharedFsRoot, defaultProfile, agentCliTimeout } = settings;
  const places = placesOf({ home, sharedFsRoot });
  const catalog = catalogReader(roots ?? profileRoots({ home, sharedFsRoot }), now);
  return {
    list: async () =>
      [...(await catalog()).values()].map(({ profile }) => ({
        name: profile.name,
        description: profile.description,
        model: profile.model,
        max_turns: profile.max_turns,
        worktree: profile.worktree,
        auto_pr: profile.auto_pr,
        permission_mode: profile.permission_mode,
        source: profile.source,
        error: profile.error,
      })),
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
      if (entry === undefined) {
        throw new ProfileError("profile_invalid", `Profile ${name} is gone since the task was submitted`);
      }
      if (!isUsable(entry)) {
        const message = `Profile ${name} cannot be used: ${entry.profile.error}`;
        throw new ProfileError("profile_invalid", message);
      }
      return {
        ...entry.profile,
        materialise: (request) => materialise(entry, request, { places, defaultTimeout: agentCliTimeout }),
      };
    },
    discard: (jobId) => discardConfigDirectory(places, jobId),
    findTranscript: (sessionId) => findTranscript(places.projects, sessionId),
  };
};
