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

/** Whether one of the globs matches the name of the repository; without one, none does. */
export const matchesRepository = (globs: readonly string[], repoUrl: string): boolean =>
  repoUrl !== "" && globs.some((glob) => globPattern(repositoryName(glob)).test(repositoryName(repoUrl)));

const wildcards: Record<string, string> = { "**": "[^]*", "*": "[^/]*", "?": "[^/]" };

/** Whether a path in a repository matches a pattern: `*` within a name, `**` through directories. */
export const matchesPath = (glob: string, path: string): boolean => globPattern(glob, "").test(path);

/** Not `path.matchesGlob`: its `*` skips names that begin with a dot, such as `acme/.github`. */
const globPattern = (glob: string, flags = "i"): RegExp => {
  const source = glob.replaceAll(
    /\*\*|[^]/g,
    (part) => wildcards[part] ?? part.replace(/[\\^$.|+()[\]{}]/, "\\$&"),
  );
  return new RegExp(`^${source}$`, flags);
};
