import { suggestion } from "../lib/nearest.ts";
import { ServiceError } from "../contract/errors.ts";
import { isUsable } from "./resolve.ts";
import type { Profiles, UsableProfile } from "./resolve.ts";

type Request = {
  /** Empty or `auto`: by the rules. */
  name: string;
  task: string;
  repoUrl: string;
  /** Name of the profile of a task that no rule fits. */
  fallback: string;
};

/** `rule`: `requested`, the `match` rule that fitted, or `SERVICE_DEFAULT_PROFILE`. */
type Choice = { entry: UsableProfile; rule: string };

/** @throws ServiceError `unknown_profile`, `invalid_profile` */
export const choose = (profiles: Profiles, { name, task, repoUrl, fallback }: Request): Choice => {
  if (name !== "" && name !== "auto") return { entry: usable(profiles, name, ""), rule: "requested" };
  for (const entry of [...profiles.values()].filter(isUsable)) {
    const rule = ruleFor(entry.match, { task, repoUrl });
    if (rule !== undefined) return { entry, rule };
  }
  const rule = "SERVICE_DEFAULT_PROFILE";
  return { entry: usable(profiles, fallback, ` (${rule})`), rule };
};

const usable = (profiles: Profiles, name: string, origin: string): UsableProfile => {
  const entry = profiles.get(name);
  if (entry === undefined) {
    const known = [...profiles].flatMap(([other, candidate]) => (isUsable(candidate) ? [other] : []));
    const choice = `use one of ${known.join(", ")}, or leave it empty`;
    throw new ServiceError(
      "unknown_profile",
      `There is no profile ${JSON.stringify(name)}${origin}; ${choice}${suggestion(name, known)}`,
    );
  }
  if (isUsable(entry)) return entry;
  throw new ServiceError(
    "invalid_profile",
    `Profile ${name}${origin} cannot be used: ${entry.profile.error}`,
  );
};

/**
 * Characters of a task that `match.task` is tried on: what kind of task it is stands at its beginning. The expressions are
 * the operator's own, and nothing ends one that backtracks for ever.
 */
const readCharacters = 2000;

/** The first `match` rule of a profile that fits a task, as it stands in the profile; undefined: none. */
const ruleFor = (
  match: UsableProfile["match"],
  { task, repoUrl }: Pick<Request, "task" | "repoUrl">,
): string | undefined => {
  const beginning = task.slice(0, readCharacters);
  const byTask = match?.task?.find((source) => new RegExp(source, "i").test(beginning));
  if (byTask !== undefined) return `match.task: ${byTask}`;
  if (repoUrl === "") return undefined;
  const repository = repositoryName(repoUrl);
  const byRepo = match?.repo?.find((glob) => globPattern(repositoryName(glob)).test(repository));
  return byRepo === undefined ? undefined : `match.repo: ${byRepo}`;
};

const wildcards: Record<string, string> = { "**": "[^]*", "*": "[^/]*", "?": "[^/]" };

/** Not `path.matchesGlob`: there `*` passes over names that begin with a dot, such as `acme/.github`. */
const globPattern = (glob: string): RegExp => {
  const source = glob.replaceAll(
    /\*\*|[^]/g,
    (part) => wildcards[part] ?? part.replace(/[\\^$.|+()[\]{}]/, "\\$&"),
  );
  return new RegExp(`^${source}$`, "i");
};

/**
 * `https://github.com/acme/app.git`, `ssh://git@github.com/acme/app` and `git@github.com:acme/app` are all
 * `github.com/acme/app`: one glob fits however a repository is written.
 */
const repositoryName = (url: string): string => {
  const short = /^[^/@]+@([^/:]+):(.*)$/.exec(url);
  const name = short === null ? url.replace(/^[a-z+]+:\/\/([^/@]*@)?/i, "") : `${short[1]}/${short[2]}`;
  return name.replace(/\/+$/, "").replace(/\.git$/, "");
};
