import { z } from "zod";
import { repositoryName } from "../contract/repository-url.ts";
import type { Definition } from "./definition.ts";

/**
 * Length of the prefix that `match.task` is matched against: a task's kind shows at its beginning. The operator writes
 * the expressions, and nothing stops one that backtracks for ever.
 */
const maxMatched = 2000;

/** The first `match` rule of a profile that matches a task, as the profile has it; undefined: none. */
export const ruleFor = (
  match: Definition["match"],
  { task, repoUrl }: { task: string; repoUrl: string },
): string | undefined => {
  const beginning = task.slice(0, maxMatched);
  const byTask = match?.task?.find((source) => new RegExp(source, "i").test(beginning));
  if (byTask !== undefined) return `match.task: ${byTask}`;
  if (repoUrl === "") return undefined;
  const byRepo = match?.repo?.find((glob) => matchesRepository([glob], repoUrl));
  return byRepo === undefined ? undefined : `match.repo: ${byRepo}`;
};

/** Globs as a profile, a repository's setup or its checks may have them: what a match costs has a bound. */
export const Globs = z
  .array(
    z.string("must be text").min(1, "must not be empty").max(500, "must have at most 500 characters"),
    "must be a list",
  )
  .max(100, "must be at most 100");

/** Whether one of the globs matches the name of the repository; without one, none does. */
export const matchesRepository = (globs: readonly string[], repoUrl: string): boolean => {
  const name = repositoryName(repoUrl).toLowerCase();
  return repoUrl !== "" && globs.some((glob) => matchesPath(repositoryName(glob).toLowerCase(), name));
};

/** Signs of all globs times those of all paths up to which they are compared: a tenth of a second at most. */
const mostCompared = 10_000_000;

/** Whether one of the paths matches one of the globs, or there are too many to compare them. */
export const matchesAny = (globs: readonly string[], paths: readonly string[]): boolean =>
  globs.join("").length * paths.join("").length > mostCompared ||
  paths.some((path) => globs.some((glob) => matchesPath(glob, path)));

/**
 * Whether a path matches a pattern: `*` within a name, `**` through directories. Each part of the pattern looks at each place
 * of the path once, so that none takes longer than its length times that of the path. Not `path.matchesGlob`: its `*` skips
 * names that begin with a dot, such as `acme/.github`.
 */
export const matchesPath = (glob: string, path: string): boolean => {
  /** 1 at the places to which the parts so far lead. */
  let reached = new Uint8Array(path.length + 1).fill(1, 0, 1);
  for (const [part] of glob.matchAll(/\*\*+|[*?]|[^*?]+/g)) {
    const next = new Uint8Array(path.length + 1);
    for (let at = reached.indexOf(1); at !== -1 && at <= path.length; at += 1)
      if (!part.startsWith("*")) {
        const fits = part === "?" ? at < path.length && path[at] !== "/" : path.startsWith(part, at);
        if (reached[at] === 1 && fits) next[at + part.length] = 1;
      } else if (reached[at] === 1 || (next[at - 1] === 1 && (part !== "*" || path[at - 1] !== "/")))
        next[at] = 1;
    reached = next;
  }
  return reached[path.length] === 1;
};
