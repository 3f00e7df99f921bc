import { maskUrl } from "./secrets.ts";
import type { Source } from "./resolve.ts";
import type { LoadedSettings } from "./settings.ts";
import type { Variable } from "./variable.ts";
import { variables } from "./variables.ts";
import type { SettingName, Settings } from "./variables.ts";

/** One row of `svc config`. It shows nothing of a secret, not even its length. */
export type SettingRow = { name: string; yaml: string; value: string; source: string; meaning: string };

export const describeSettings = ({ settings, sources }: LoadedSettings): SettingRow[] =>
  Object.entries<Variable>(variables).map(([key, { name, yaml, secret, meaning }]) => {
    // The keys of `variables` are those of `Settings`.
    const setting = key as SettingName;
    const value = settings[setting];
    return {
      name,
      yaml,
      value: secret ? masked(value) : shown(value),
      source: place(sources[setting]),
      meaning,
    };
  });

const masked = (value: Settings[SettingName]): string => {
  if (!Array.isArray(value)) return value === null ? "" : "***";
  if (value.length === 0) return "";
  return `*** (${value.length} ${value.length === 1 ? "key" : "keys"})`;
};

const shown = (value: Settings[SettingName]): string => {
  if (value === null) return "";
  if (typeof value === "object" && "kind" in value) return policyText(value);
  return maskUrl(Array.isArray(value) ? value.join(",") : String(value));
};

/** As it would be written in the environment. */
const policyText = (policy: Settings["agentModeOnDisconnect"]): string => {
  if (policy.kind === "detach") return "detach";
  return policy.graceSeconds === 0 ? "cancel" : `grace:${policy.graceSeconds}`;
};

const place = (source: Source): string => {
  if (source.from === "environment") return `environment, ${source.name}`;
  return source.from === "file" ? `file ${source.path}` : "default";
};
