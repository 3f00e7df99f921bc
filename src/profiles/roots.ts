import { existsSync } from "node:fs";
import { join } from "node:path";

/** A directory that profiles are read from. */
export type ProfileRoot = {
  path: string;
  /** What a profile's `source` says instead of its path; null: the path. */
  label: string | null;
};

/** The search order, later wins. */
export const profileRoots = ({
  home,
  sharedFsRoot,
}: {
  home: string;
  sharedFsRoot: string | null;
}): ProfileRoot[] => [
  { path: bundledDirectory(import.meta.dirname), label: "bundled" },
  ...(sharedFsRoot === null ? [] : [{ path: join(sharedFsRoot, "profiles"), label: null }]),
  { path: join(home, ".service", "profiles"), label: null },
];

/** Beside this file in the source tree; the published bundle is one file with the profiles in `profiles/` beside it. */
export const bundledDirectory = (beside: string): string => {
  const inSource = join(beside, "bundled");
  return existsSync(inSource) ? inSource : join(beside, "profiles");
};
