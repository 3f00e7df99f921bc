import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { temporaryDirectory } from "../../test/temporary.ts";
import type { AgentLaunch } from "../agents/agent.ts";
import { createLog } from "../lib/log.ts";
import { createAgentPackage } from "./hub-agent.ts";
import type { MaterialiseRequest, Profiles } from "./profile.ts";
import { createProfiles } from "./profiles.ts";

/** Nothing is allowed, nothing reserved. */
export const noBoundary = { serviceWide: { hosts: [], read: [], write: [] }, reserved: [] };

type Files = Record<string, string | Buffer>;

/** For tests: a directory with `home`, `shared` and `hub`, and a clock that stands still until moved. */
const filesAndClock = async (files: Files) => {
  const directory = await temporaryDirectory();
  /** Paths are relative to the directory. */
  const write = async (more: Files): Promise<void> => {
    for (const [path, content] of Object.entries(more)) {
      await mkdir(dirname(join(directory, path)), { recursive: true });
      await writeFile(join(directory, path), content);
    }
  };
  const home = join(directory, "home");
  const shared = join(directory, "shared");
  const hub = join(directory, "hub");
  for (const path of [home, shared, join(hub, "agents")]) await mkdir(path, { recursive: true });
  await write(files);
  let time = 0;
  /** Lets the time pass in which files are taken to be unchanged. */
  const wait = () => void (time += 1000);
  const warnings: string[] = [];
  const log = createLog("warn", (line) => (warnings.push(line), ""));
  return { directory, home, shared, hub, write, wait, now: () => time, warnings, log };
};

export const setup = async (files: Files = {}, { withShared = true }: { withShared?: boolean } = {}) => {
  const { home, shared, write, wait, now, warnings, log } = await filesAndClock(files);
  const sharedFsRoot = withShared ? shared : null;
  const settings = { sharedFsRoot, defaultProfile: "code", hooksProfile: "coding", agentCliTimeout: 3600 };
  return {
    profiles: createProfiles({
      settings,
      companions: async () => null,
      boundary: noBoundary,
      home,
      now,
      log,
    }),
    home,
    shared,
    write,
    wait,
    warnings,
  };
};

export type Setup = Awaited<ReturnType<typeof setup>>;

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

type Options = Partial<Parameters<typeof createAgentPackage>[0]["settings"]> & { hubPath?: string | null };

/** The agent is `writer` unless told otherwise. */
export const setupHub = async (files: Files = {}, { hubPath, ...settings }: Options = {}) => {
  const { directory, home, shared, hub, write, wait, now, log } = await filesAndClock(files);
  const path = hubPath === undefined ? hub : hubPath;
  const agent = createAgentPackage({
    settings: {
      hubAgent: "writer",
      hubUrl: null,
      sharedFsRoot: shared,
      agentModeModel: "sonnet",
      agentModeMaxTurns: 80,
      agentModePermissionMode: "bypassPermissions",
      agentModeTimeout: 3600,
      ...settings,
    },
    boundary: noBoundary,
    companions: async (target) => (target !== "hub" || path === null ? null : { path, label: null }),
    home,
    now,
    log,
  });
  return { agent, directory, write, wait };
};

/** Path of a file of the agent `writer`. */
export const writer = (path: string): string => `hub/agents/writer/${path}`;

export const processId = "5e0b1f6a-0f5c-4a5e-9a52-2f6f0c9d7b11";

export const process = {
  processId,
  cwd: "/",
  model: null,
  maxTurns: null,
  disabledMcpServers: [] as readonly string[],
};
