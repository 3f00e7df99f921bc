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
export type Root = { name: "bundled" | "shared" | "home" | "hub"; path: string; layout: Layout };

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

export const sharedRoot = (sharedFsRoot: string): Root => ({
  name: "shared",
  path: join(sharedFsRoot, "profiles"),
  layout: profileLayout,
});

export const hubRoot = (hubPath: string): Root => ({
  name: "hub",
  path: join(hubPath, "agents"),
  layout: agentLayout,
});

/** The search order of profiles, later wins. */
export const profileRoots = ({
  home,
  sharedFsRoot,
}: {
  home: string;
  sharedFsRoot: string | null;
}): Root[] => [
  bundledRoot(),
  ...(sharedFsRoot === null ? [] : [sharedRoot(sharedFsRoot)]),
  { name: "home", path: join(home, ".service", "profiles"), layout: profileLayout },
];
