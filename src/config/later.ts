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

export const isLater = (name: string): boolean =>
  laterVariables.has(name) || laterPrefixes.some((prefix) => name.startsWith(prefix));

/** A sentence when `name` asks for something that this version does not have; null: it asks for nothing. */
export const laterWarning = (name: string, value: string): string | null => {
  if (!isLater(name) || off.includes(value.toLowerCase())) return null;
  return `${name} has no effect in this version`;
};
