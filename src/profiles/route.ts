import { suggestion } from "../lib/nearest.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Catalog } from "./catalog.ts";
import { isUsable } from "./resolve.ts";
import type { UsableProfile } from "./resolve.ts";

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
export const choose = (catalog: Catalog, { name, task, repoUrl, fallback }: Request): Choice => {
  if (name !== "" && name !== "auto") return { entry: usable(catalog, name, ""), rule: "requested" };
  for (const entry of [...catalog.values()].filter(isUsable)) {
    const rule = entry.ruleFor({ task, repoUrl });
    if (rule !== undefined) return { entry, rule };
  }
  const rule = "SERVICE_DEFAULT_PROFILE";
  return { entry: usable(catalog, fallback, ` (${rule})`), rule };
};

const usable = (catalog: Catalog, name: string, origin: string): UsableProfile => {
  const entry = catalog.get(name);
  if (entry === undefined) {
    const known = [...catalog].flatMap(([other, candidate]) => (isUsable(candidate) ? [other] : []));
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
