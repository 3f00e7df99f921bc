import { existsSync } from "node:fs";
import { lstat, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { hiddenByAgent } from "./clone.ts";
import { find, repositoriesIn } from "./find.ts";
import { runGitOrNull, unlessRefused, type GitContext } from "./git-context.ts";
import { replace } from "./git-directory.ts";
import { readOwner, writeOwner } from "./owner-file.ts";
import { absentIn, inside, pathList, shownPath } from "./path-bytes.ts";
import { runtimeFiles, type Worktree } from "./repos.ts";
import { hasUnsaved } from "./submodule.ts";
import type { Tree } from "./wall.ts";

/** Directories that tools make again, and `.svc`. docs/use/changes.md has the list. */
const directories =
  "node_modules bower_components jspm_packages vendor Pods Carthage .venv venv .tox .nox .eggs *.egg-info .bundle .yarn " +
  ".pnpm-store elm-stuff deps target build dist bin obj _build dist-newstyle .stack-work DerivedData .build cmake-build-* " +
  "zig-out .next .vite .nuxt .output .svelte-kit .angular .gradle .dart_tool .turbo .terraform .serverless __pycache__ " +
  "*cache* *Cache* .hypothesis test-results coverage* htmlcov .nyc_output .svc";

const files =
  "*.log *.pid *.pyc *.pyo *.class *.o *.tsbuildinfo *cache* coverage* .coverage* lcov.info .DS_Store";

const named = (names: string): string[] => names.split(" ").flatMap((name) => ["-o", "-name", name]);

/** Most paths that the owner file names. */
const mostNamed = 1000;

const markOf = ({ ownDir }: Worktree): string => join(ownDir, "agent-works");

/** Notes that from now on the agent makes files: what setup and checks made before is not named. */
export const markAgentWork = (worktree: Worktree): Promise<void> => replace(markOf(worktree), "");

/**
 * Paths of the agent's work that git ignores, and that are therefore in no commit: new files, and repositories of its own
 * with work that only they have. Each is named once for a worktree. Call it after a capture, whose index knows the tracked files.
 */
export const ignoredWork = async (context: GitContext, worktree: Worktree): Promise<string[]> => {
  const began = Date.now() - 20;
  const owned = await readOwner(context, worktree.worktreeId);
  if (owned === null || !existsSync(markOf(worktree))) return [];
  const fresh = (await newIgnored(context, worktree)).filter((path) => !owned.ignored.includes(path));
  const ignored = [...owned.ignored, ...fresh].slice(0, mostNamed);
  if (fresh.length > 0) await writeOwner(context, { ...owned, ignored });
  // Those that do not fit are not named again: from now on only newer ones are.
  if (ignored.length === mostNamed) await utimes(markOf(worktree), began / 1000, began / 1000);
  return fresh.map(shownPath);
};

/** Those that are still there. */
export const ignoredStill = async ({ path }: Worktree, ignored: string[]): Promise<string[]> => {
  const gone = await absentIn(path, ignored);
  return ignored.filter((each) => !gone.includes(each)).map(shownPath);
};

const newIgnored = async (context: GitContext, worktree: Worktree): Promise<string[]> => {
  const wanted = [
    ["-mindepth", "1", "-name", ".git", "-prune", "-print0"],
    ["-o", "-type", "d", "(", "-false", ...named(directories), ")", "-prune"],
    ["-o", "-newercm", markOf(worktree), "(", "-type", "d", "-printf", "%p/\\0", "-o"],
    ["(", "-type", "f", "-o", "-type", "l", ")", "!", "(", "-false", ...named(files), ")", "-print0", ")"],
  ];
  const stdout = await find(context, worktree.path, wanted.flat());
  const paths = stdout.split("\0").flatMap((path) => (["", "./.git"].includes(path) ? [] : [path.slice(2)]));
  const repositories = repositoriesIn(paths);
  const ownerOf = (path: string) => repositories.find((repository) => path.startsWith(`${repository}/`));
  const changed = new Set(paths.flatMap((path) => (path.endsWith("/.git") ? [] : (ownerOf(path) ?? []))));
  const own = paths.filter((path) => !path.endsWith("/") && ownerOf(path) === undefined);
  // Also of a kind that tools make again: no rule of the repository says so.
  const { mtimeMs } = await stat(markOf(worktree));
  const hidden: string[] = [];
  for (const path of await hiddenByAgent(context, worktree)) {
    const file = path.endsWith("/") ? null : await lstat(inside(worktree.path, path)).catch(() => null);
    if (file !== null && file.ctimeMs > mtimeMs) hidden.push(path);
  }
  const asked = [...new Set([...own, ...hidden]), ...changed];
  const work: string[] = [];
  for (const [path, pattern] of await ignoredOf(context, worktree, asked)) {
    const isRepository = changed.has(path);
    const isWork = isRepository ? hasUnsaved(context, worktree, path) : !runtimeFiles.includes(pattern);
    if (await isWork) work.push(path);
  }
  return work;
};

/** Those that git ignores, with the pattern that says so. One with `!` says the opposite. */
export const ignoredOf = async (context: GitContext, tree: Tree, paths: string[]) => {
  if (paths.length === 0) return [];
  const call = { input: pathList(paths), encoding: "latin1" } as const;
  const asking = runGitOrNull(context, tree, ["check-ignore", "--verbose", "-z", "--stdin"], call);
  const said = (await unlessRefused(asking, () => null))?.stdout ?? "";
  const found = said.matchAll(/[^\0]*\0\d*\0([^\0]*)\0([^\0]+)\0/g);
  const all = Array.from(found, ([, pattern = "", path = ""]): [string, string] => [path, pattern]);
  return all.filter(([, pattern]) => !pattern.startsWith("!"));
};
