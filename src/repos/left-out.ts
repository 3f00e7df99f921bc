import { existsSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { runCommand } from "../lib/command.ts";
import { runGitOrNull, unlessRefused, type GitContext } from "./git-context.ts";
import { replace } from "./git-directory.ts";
import { readOwner, writeOwner } from "./owner-file.ts";
import { inside, pathBytes, shownPath } from "./path-bytes.ts";
import type { Worktree } from "./repos.ts";
import { hasUncommitted } from "./submodule.ts";

/** Patterns of the files that Claude Code keeps for itself. It hides them by `.git/info/exclude`, too. */
export const runtimeFiles = [
  "scheduled_tasks.lock",
  "scheduled_tasks.json",
  "routines/.state/",
  "worktrees/",
  "checkpoints/",
  "mailbox/",
  "agent-registry.json",
  "agent-memory-local",
  "first-run",
  "assistant-daemon-state.json",
].map((path) => `**/.claude/${path}`);

const isRuntimeFile = new RegExp(
  `(^|/)\\.claude/(${runtimeFiles.map((each) => each.slice("**/.claude/".length).replaceAll(".", "\\.")).join("|")})`,
);

/** Directories of dependencies, builds and caches, which tools make again. The list stands in docs/use/changes.md. */
const madeAgain = (
  "node_modules bower_components jspm_packages vendor Pods Carthage .venv venv .tox .nox .eggs *.egg-info site-packages " +
  ".bundle .yarn .pnpm-store elm-stuff deps target build dist obj _build dist-newstyle .stack-work DerivedData .build " +
  "cmake-build-* zig-out .next .nuxt .output .svelte-kit .angular .gradle .mvn .dart_tool .turbo .terraform .serverless " +
  "__pycache__ *cache* *Cache* .hypothesis coverage* htmlcov .nyc_output .svc"
).split(" ");

const filesMadeAgain = "*.log *.pyc *.pyo *.class *.o *.tsbuildinfo *cache* coverage* .coverage* lcov.info .DS_Store";

/** Most paths that the owner file names. */
const mostNamed = 1000;

const markOf = ({ ownDir }: Worktree): string => join(ownDir, "agent-works");

/** Notes that from now on files are made by the agent: what setup and checks made before is not named. */
export const markAgentWork = async (worktree: Worktree): Promise<void> => await replace(markOf(worktree), "");

/**
 * Paths of the agent's work that git ignores, and that are therefore in no commit: new files, and repositories of its own
 * with uncommitted work. Each is named once for a worktree. Call it after a capture, whose index knows the tracked files.
 */
export const ignoredWork = async (context: GitContext, worktree: Worktree): Promise<string[]> => {
  const owned = await readOwner(context, worktree.worktreeId);
  if (owned === null || !existsSync(markOf(worktree))) return [];
  const ignored = (await newIgnored(context, worktree)).map((path) => path.slice(0, 4096));
  const known = owned.ignored.filter((path) => isThere(worktree, path));
  const fresh = ignored.filter((path) => !known.includes(path));
  const named = [...known, ...fresh].slice(0, mostNamed);
  if (named.join("\0") !== owned.ignored.join("\0")) await writeOwner(context, { ...owned, ignored: named });
  return fresh.map(shownPath);
};

/** Whether a named path is still there. Paths are bytes, one character each. */
export const isThere = ({ path: root }: Pick<Worktree, "path">, path: string): boolean => {
  try {
    lstatSync(inside(root, path));
    return true;
  } catch {
    return false;
  }
};

const newIgnored = async (context: GitContext, worktree: Worktree): Promise<string[]> => {
  const named = (names: string): string[] =>
    names.split(" ").flatMap((name, nth) => [...(nth > 0 ? ["-o"] : []), "-name", name]);
  const { stdout } = await runCommand({
    command: "/usr/bin/find",
    args: [
      ...["-mindepth", "1", "-name", ".git", "-prune", "-print0", "-o"],
      ...["-type", "d", "(", ...named(madeAgain.join(" ")), ")", "-prune", "-o"],
      ...["-newercm", markOf(worktree), "(", "-type", "f", "-o", "-type", "l", ")"],
      ...["!", "(", ...named(filesMadeAgain), ")", "-print0"],
    ],
    cwd: worktree.path,
    env: { LC_ALL: "C" },
    encoding: "latin1",
    timeoutSeconds: context.settings.gitTimeout,
    signal: context.signal,
  });
  const paths = stdout.split("\0").flatMap((path) => (path === "" ? [] : [path.slice(2)]));
  const repositories = paths.flatMap((path) => (path.endsWith("/.git") ? [path.slice(0, -5)] : []));
  const changed = new Set<string>();
  const files = paths.filter((path) => {
    const owner = repositories.find((repository) => path.startsWith(`${repository}/`));
    if (owner !== undefined && !path.endsWith("/.git")) changed.add(owner);
    return owner === undefined && path !== ".git" && !isRuntimeFile.test(path);
  });
  const ignored = await ignoredOf(context, worktree, [...files, ...changed]);
  const kept: string[] = [];
  for (const path of ignored)
    if (!changed.has(path) || (await hasUncommitted(context, worktree, path))) kept.push(path);
  return kept;
};

const ignoredOf = async (context: GitContext, worktree: Worktree, paths: string[]): Promise<string[]> => {
  if (paths.length === 0) return [];
  const input = pathBytes(paths.map((path) => `${path}\0`).join(""));
  const asking = runGitOrNull(context, worktree, ["check-ignore", "-z", "--stdin"], {
    input,
    encoding: "latin1",
  });
  const said = await unlessRefused(asking, () => null);
  const ignored = new Set(said?.stdout.split("\0"));
  return paths.filter((path) => ignored.has(path));
};
