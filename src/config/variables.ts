import type { SettingsOf } from "./resolve.ts";
import { agentModeVariables } from "./variables/agent-mode.ts";
import { agentVariables, jobVariables } from "./variables/jobs.ts";
import { companionVariables } from "./variables/companions.ts";
import {
  budgetVariables,
  clusterVariables,
  serverVariables,
  telemetryVariables,
  tracingVariables,
} from "./variables/server.ts";
import { repositoryVariables } from "./variables/repositories.ts";

/**
 * The one table of settings: source of `svc config`, of the documentation's list and of the validation at start.
 * Values come from the environment, then `~/.service/config.yml`, then the default; an empty variable counts as unset.
 */
export const variables = {
  ...serverVariables,
  ...agentVariables,
  ...agentModeVariables,
  ...jobVariables,
  ...clusterVariables,
  ...repositoryVariables,
  ...companionVariables,
  ...telemetryVariables,
  ...tracingVariables,
  ...budgetVariables,
};

/**
 * All settings, resolved and validated. Durations are in seconds, sizes in bytes, unless the variable's meaning says
 * otherwise.
 */
export type Settings = SettingsOf<typeof variables>;

export type SettingName = keyof Settings;

/** The same table under the headings of the documentation. */
export const variableGroups = {
  Server: serverVariables,
  "Agent and model": agentVariables,
  "Agent mode": agentModeVariables,
  "Jobs and profiles": jobVariables,
  "Several instances": clusterVariables,
  "Repositories and git host": repositoryVariables,
  "Companion repositories": companionVariables,
  "Telemetry and budgets": { ...telemetryVariables, ...tracingVariables, ...budgetVariables },
};

/** Accepted for compatibility, without effect; each set one is named in a warning. */
export const deprecatedVariables: Record<string, string> = {
  SERVICE_AGENT_CLI_CONFIG_DIR: "each job has a config directory of its own",
  SERVICE_HOOKS_SYNC_INTERVAL: "the hooks repository is not refreshed in the background",
};
