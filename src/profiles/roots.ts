import { existsSync } from "node:fs";
import { join } from "node:path";

/** Where the parts of a profile or agent are; paths are relative to its directory. */
type Layout = {
  definition: string;
  /** Directory with `.claude/` and `.mcp.json`, and the paths below that are relative to it. */
  parts: string;
  /** Possible paths of the CLI's user memory. */
  memories: readonly string[];
  /** Text that is appended to the system prompt. */
  prompt: string | null;
  /** Whether a file `<name>.yml` is one too, and `name` may differ from the directory's. */
  loose: boolean;
};

/** A directory that profiles or agents are read from. */
export type Root = {
  name: "bundled" | "hooks" | "bundle" | "shared" | "home" | "hub";
  path: string;
  layout: Layout;
  /** Names the directory to users; absent: its path does. */
  label?: string;
};

/** The files of a companion repository as they are now; null: it has none. `label` names the repository. */
export type CompanionReader = (
  target: "hooks" | "bundle" | "hub",
) => Promise<{ path: string; label: string | null } | null>;

const profileLayout: Layout = {
  definition: "profile.yml",
  parts: "",
  memories: [".claude/CLAUDE.md"],
  prompt: null,
  loose: true,
};

const agentLayout: Layout = {
  definition: "agent.yml",
  parts: "package",
  memories: [".claude/CLAUDE.md", "CLAUDE.md"],
  prompt: "system.md",
  loose: false,
};

/** Beside this file in the source tree; in the package beside the bundle, in `profiles/`. */
export const bundledRoot = (beside: string = import.meta.dirname): Root => {
  const inSource = join(beside, "bundled");
  const path = existsSync(inSource) ? inSource : join(beside, "profiles");
  return { name: "bundled", path, layout: profileLayout };
};

/** The same as long as this process runs. */
const bundled = bundledRoot();

export const sharedRoot = (sharedFsRoot: string): Root => ({
  name: "shared",
  path: join(sharedFsRoot, "profiles"),
  layout: profileLayout,
});

/** The agents of the hub; null: there is no hub. */
export const hubRoot = async (companions: CompanionReader): Promise<Root | null> =>
  companionRoot("hub", "agents", companions);

type Places = { home: string; sharedFsRoot: string | null; companions: CompanionReader };

/** The search order of profiles, later wins. */
export const profileRoots = async ({ home, sharedFsRoot, companions }: Places): Promise<Root[]> =>
  [
    bundled,
    await companionRoot("hooks", "profiles", companions),
    await companionRoot("bundle", "profiles", companions),
    sharedFsRoot === null ? null : sharedRoot(sharedFsRoot),
    { name: "home" as const, path: join(home, ".service", "profiles"), layout: profileLayout },
  ].filter((root) => root !== null);

const companionRoot = async (
  name: "hooks" | "bundle" | "hub",
  directory: "profiles" | "agents",
  companions: CompanionReader,
): Promise<Root | null> => {
  const files = await companions(name);
  if (files === null) return null;
  const layout = directory === "agents" ? agentLayout : profileLayout;
  const label = files.label === null ? {} : { label: `${files.label}:${directory}` };
  return { name, path: join(files.path, directory), layout, ...label };
};
