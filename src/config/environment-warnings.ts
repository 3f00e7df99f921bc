import { isLater, laterWarning } from "./later.ts";
import { suggestion } from "../lib/nearest.ts";
import { deprecatedVariables, variables } from "./variables.ts";

/** Variables without effect: deprecated, of a later version, or probably misspelt. */
export const environmentWarnings = (env: NodeJS.ProcessEnv): string[] =>
  Object.entries(env).flatMap(([name, value]) => {
    if (value === undefined || value.trim() === "") return [];
    const warning = laterWarning(name, value.trim()) ?? deprecatedWarning(name) ?? unknownWarning(name);
    return warning === null ? [] : [warning];
  });

const deprecatedWarning = (name: string): string | null => {
  const reason = Object.hasOwn(deprecatedVariables, name) ? deprecatedVariables[name] : undefined;
  return reason === undefined ? null : `${name} is deprecated and has no effect: ${reason}`;
};

const unknownWarning = (name: string): string | null => {
  if (!ownPrefixes.some((prefix) => name.startsWith(prefix)) || known.has(name) || isLater(name)) return null;
  return `${name} is not a variable of this service and has no effect${suggestion(name, known)}`;
};

const ownPrefixes = ["SERVICE_", "GIT_HOST_", "MODEL_API_", "AGENT_CLI_", "AGENT_MODE_", "KV_"];

const known = new Set([
  ...Object.values(variables).flatMap(({ name, fallbacks }) => [name, ...fallbacks]),
  // Set for the agent's own processes, which may call `svc`.
  "SERVICE_INSTANCE",
  "SERVICE_JOB_ID",
  "SERVICE_PROFILE",
]);
