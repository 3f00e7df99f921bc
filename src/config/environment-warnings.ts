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

/** Documented variables of parts that this version does not have: it warns instead of ignoring them. */
const laterVariables = new Set([
  "SERVICE_HOOKS_PATH",
  "SERVICE_HOOKS_URL",
  "SERVICE_HOOKS_BRANCH",
  "SERVICE_HOOKS_BUNDLE_URL",
  "SERVICE_HOOKS_BUNDLE_SYNC_INTERVAL",
  "HOOKS_PROFILE",
  "SERVICE_HUB_URL",
  "SERVICE_HUB_SYNC_INTERVAL",
  "HUB_DIR",
  "SERVICE_TELEMETRY_DB",
]);

const laterPrefixes = ["TRACING_"];

/** With such a value, a variable of a later part asks for what this version does anyway. */
const off = ["false", "0", "no", "off"];

const isLater = (name: string): boolean =>
  laterVariables.has(name) || laterPrefixes.some((prefix) => name.startsWith(prefix));

/** A sentence when `name` asks for something that this version does not have; null: it asks for nothing. */
const laterWarning = (name: string, value: string): string | null => {
  if (!isLater(name) || off.includes(value.toLowerCase())) return null;
  return `${name} has no effect in this version`;
};
