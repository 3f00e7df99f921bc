import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createProfiles } from "./profiles.ts";
import type { AgentLaunch } from "../agents/agent.ts";
import type { MaterialiseRequest, Profiles } from "./profile.ts";

/** For tests: a home and a shared root with profile files in them, and a clock that stands still until moved. */
export type Setup = {
  profiles: Profiles;
  home: string;
  shared: string;
  /** Paths are relative to the directory that holds `home` and `shared`. */
  write: (files: Record<string, string>) => Promise<void>;
  /** Lets the time pass in which files are taken to be unchanged. */
  wait: () => void;
};

/** `makeDirectory` gives a fresh directory that is removed after the test file. */
export const setupIn =
  (makeDirectory: () => Promise<string>) =>
  async (
    files: Record<string, string> = {},
    { withShared = true }: { withShared?: boolean } = {},
  ): Promise<Setup> => {
    const directory = await makeDirectory();
    const write = async (more: Record<string, string>) => {
      for (const [path, content] of Object.entries(more)) {
        await mkdir(dirname(join(directory, path)), { recursive: true });
        await writeFile(join(directory, path), content);
      }
    };
    await mkdir(join(directory, "home"));
    await mkdir(join(directory, "shared"));
    await write(files);
    const home = join(directory, "home");
    const shared = join(directory, "shared");
    let time = 0;
    const profiles = createProfiles({
      settings: { sharedFsRoot: withShared ? shared : null, defaultProfile: "code", agentCliTimeout: 3600 },
      home,
      now: () => time,
    });
    return { profiles, home, shared, write, wait: () => void (time += 1000) };
  };

export const named = async ({ profiles }: Setup, name: string) =>
  (await profiles.list()).find((profile) => profile.name === name);

/** Path of a file of a custom profile, as `setup` takes it. */
export const custom = (path: string): string => `home/.service/profiles/${path}`;

/** Path of a file of a profile on the shared file system. */
export const sharedProfile = (path: string): string => `shared/profiles/${path}`;

export const jobId = "3f2b8a52-8a6e-4a0f-9d0e-0d6f5b1c2a77";

export const request = (profile: string) => ({
  jobId,
  profile,
  worktreePath: "/worktrees/it's here",
  worktreeId: jobId,
  repoKey: "0123456789ab",
  filePath: "",
});

/** As a run starts with the profile as it is now. */
export const launchOf = async (
  profiles: Profiles,
  { profile, ...rest }: MaterialiseRequest & { profile: string },
): Promise<AgentLaunch> => (await profiles.pin(profile)).materialise(rest);
