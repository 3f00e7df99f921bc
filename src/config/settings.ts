import { homedir } from "node:os";
import { join } from "node:path";
import { ConfigError } from "./config-error.ts";
import { fileModeWarning, readConfigFile, type ConfigFile } from "./file.ts";
import { shortKeys } from "./key-strength.ts";
import { isLoopbackHost } from "./formats.ts";
import { resolveVariables, unknownVariable, type Source } from "./resolve.ts";
import type { Variable } from "./variable.ts";
import { variables, type SettingName, type Settings, deprecatedVariables } from "./variables.ts";

export type LoadedSettings = {
  settings: Settings;
  sources: Record<SettingName, Source>;
  /** Sentences for the log: the configuration works, but perhaps not as intended. */
  warnings: string[];
};

type Request = {
  env: NodeJS.ProcessEnv;
  /** Home directory of the service's user. */
  home?: string;
  /** YAML file to read, which must exist; else `~/.service/config.yml`, which may be missing. */
  file?: string;
  /**
   * `client`: for a command that calls a service, possibly on another machine, so rules about listening do not apply.
   */
  role?: "server" | "client";
};

/**
 * Environment over YAML file over default.
 * @throws ConfigError naming every fault
 */
export const loadSettings = ({ env, home = homedir(), file, role = "server" }: Request): LoadedSettings => {
  const configFile = readConfigFile({
    path: file ?? join(home, ".service", "config.yml"),
    required: file !== undefined,
    known: Object.values(variables).map(({ yaml }) => yaml),
    aliases: new Map(
      Object.values<Variable>(variables).flatMap(({ name, fallbacks, yaml }) =>
        [name, ...fallbacks].map((alias) => [alias, yaml] as const),
      ),
    ),
  });
  const { values: parsed, sources, faults } = resolveVariables(variables, { env, home, file: configFile });
  const together = checkTogether(parsed, role);
  faults.push(...together.faults);
  if (faults.length > 0) throw new ConfigError(faults);

  const settings = parsed as Settings;
  settings.allowLocalRepos ??= isLoopbackHost(settings.host);
  if (hasTracingKeys(settings)) settings.tracingHost ??= vendorCloud;
  return {
    settings,
    sources,
    warnings: [...environmentWarnings(env), ...together.warnings, ...modeWarning(configFile)],
  };
};

const modeWarning = ({ path, values }: ConfigFile): string[] => {
  const holdsSecret = Object.values<Variable>(variables).some(
    ({ yaml, secret }) => secret && values.has(yaml),
  );
  const warning = holdsSecret ? fileModeWarning(path) : null;
  return warning === null ? [] : [warning];
};

type Findings = { faults: string[]; warnings: string[] };

/**
 * Rules over more than one setting. A rule is skipped when one of its settings is itself at fault, so that no
 * consequences are reported. `role` client: only what the `svc` commands need.
 */
const checkTogether = (settings: Partial<Settings>, role: "server" | "client"): Findings => {
  const findings = [
    keyStrength(settings),
    appKey(settings),
    tracingKeys(settings),
    agentEnvironment(settings),
  ];
  if (role === "server") findings.push(openDoor(settings), idleHub(settings), sharedBudgets(settings));
  return {
    faults: findings.flatMap(({ faults }) => faults),
    warnings: findings.flatMap(({ warnings }) => warnings),
  };
};

const rule =
  <Needed extends SettingName>(
    needs: readonly Needed[],
    check: (settings: Pick<Settings, Needed>) => Findings,
  ) =>
  (settings: Partial<Settings>): Findings =>
    hasAll(settings, needs) ? check(settings) : { faults: [], warnings: [] };

const hasAll = <Needed extends SettingName>(
  settings: Partial<Settings>,
  needs: readonly Needed[],
): settings is Partial<Settings> & Pick<Settings, Needed> =>
  needs.every((name) => settings[name] !== undefined);

const openDoor = rule(["host", "apiKeys", "allowOpen"], ({ host, apiKeys, allowOpen }) => {
  if (isLoopbackHost(host) || apiKeys.length > 0) return { faults: [], warnings: [] };
  const reach = `SERVICE_HOST is ${host}, which other machines can reach, and SERVICE_API_KEYS is not set`;
  if (allowOpen) {
    return {
      faults: [],
      warnings: [`${reach}: whoever reaches it can run code here (SERVICE_ALLOW_OPEN is true)`],
    };
  }
  const wayOut =
    "set SERVICE_API_KEYS, or SERVICE_HOST=127.0.0.1, or SERVICE_ALLOW_OPEN=true to serve without keys";
  return { faults: [`${reach}; ${wayOut}`], warnings: [] };
});

const idleHub = rule(["agentMode", "hubAgent"], ({ agentMode, hubAgent }) => ({
  faults: [],
  warnings:
    agentMode || hubAgent === null
      ? []
      : ["HUB_AGENT has no effect without agent mode: set AGENT_MODE=true as well"],
}));

const sharedBudgets = rule(["kvUrl", "telemetryDb", "budgetDayUsd", "budgetKeyDayUsd"], (settings) => {
  const { kvUrl, telemetryDb, budgetDayUsd, budgetKeyDayUsd } = settings;
  const isSet = budgetDayUsd !== null || budgetKeyDayUsd !== null;
  if (!isSet || kvUrl === null || telemetryDb !== null) return { faults: [], warnings: [] };
  const wayOut = "set SERVICE_TELEMETRY_DB to a PostgreSQL that all instances share";
  return { faults: [`A budget of several instances (KV_URL) needs one database: ${wayOut}`], warnings: [] };
});

const keyStrength = rule(["apiKeys"], ({ apiKeys }) => ({
  faults: [],
  warnings: shortKeys("SERVICE_API_KEYS", apiKeys),
}));

const keyForms = ["gitHostAppPrivateKeyPath", "gitHostAppPrivateKey", "gitHostAppPrivateKeyBase64"] as const;

const appKey = rule(
  ["gitHostAppId", "gitHostAppInstallationId", ...keyForms],
  ({ gitHostAppId, gitHostAppInstallationId, ...rest }) => {
    const given = keyForms.filter((form) => rest[form] !== null).map((form) => variables[form].name);
    const installation = variables.gitHostAppInstallationId.name;
    const faults: string[] = [];
    if (gitHostAppId === null) {
      const orphans = [...(gitHostAppInstallationId === null ? [] : [installation]), ...given];
      if (orphans.length > 0)
        faults.push(`${orphans.join(" and ")} set without GIT_HOST_APP_ID; set it as well`);
      return { faults, warnings: [] };
    }
    if (gitHostAppInstallationId === null) {
      faults.push(`GIT_HOST_APP_ID is set without ${installation}; set it as well`);
    }
    const names = keyForms.map((form) => variables[form].name).join(", ");
    if (given.length === 0) faults.push(`GIT_HOST_APP_ID is set without the app's key; set one of ${names}`);
    if (given.length > 1) faults.push(`${given.join(" and ")} are set; keep exactly one of them`);
    return { faults, warnings: [] };
  },
);

const tracingNames = ["tracingHost", "tracingPublicKey", "tracingSecretKey", "tracingBasicAuth"] as const;

/** The hosted cloud of the tracing vendor. */
const vendorCloud = "https://cloud.langfuse.com";

const hasTracingKeys = (settings: Pick<Settings, "tracingPublicKey" | "tracingSecretKey">): boolean =>
  settings.tracingPublicKey !== null && settings.tracingSecretKey !== null;

const tracingKeys = rule(tracingNames, (settings) => {
  const { tracingHost, tracingPublicKey, tracingSecretKey, tracingBasicAuth } = settings;
  const isHalf = (tracingPublicKey === null) !== (tracingSecretKey === null);
  const isLost = tracingHost === null && tracingBasicAuth !== null && !hasTracingKeys(settings);
  const half = "Only one of TRACING_PUBLIC_KEY and TRACING_SECRET_KEY is set, which has no effect: set both";
  const lost = `TRACING_BASIC_AUTH is set without TRACING_HOST, so no trace is sent: name its address, as in ${vendorCloud}`;
  return { faults: [], warnings: isHalf ? [half] : isLost ? [lost] : [] };
});

const neverForAgents = [
  variables.apiKeys.name,
  variables.apiKey.name,
  variables.otlpToken.name,
  variables.gitHostToken.name,
  variables.gitHostAppPrivateKey.name,
  variables.gitHostAppPrivateKeyBase64.name,
  variables.kvUrl.name,
  variables.telemetryDb.name,
];

/** A repository's content can make the agent reveal what it can read. */
const agentEnvironment = rule(["agentEnv"], ({ agentEnv }) => {
  const asked = agentEnv.filter((name) => neverForAgents.includes(name) || name.startsWith("TRACING_"));
  const faults = asked.map(
    (name) => `SERVICE_AGENT_ENV names ${name}, which is never handed to the agent; take it out`,
  );
  return { faults, warnings: [] };
});

/** Variables without effect: deprecated, or probably misspelt. */
const environmentWarnings = (env: NodeJS.ProcessEnv): string[] =>
  Object.entries(env).flatMap(([name, value]) => {
    if (value === undefined || value.trim() === "") return [];
    const warning = deprecatedWarning(name) ?? unknownVariable(name, { prefixes, known });
    return warning === null ? [] : [warning];
  });

const deprecatedWarning = (name: string): string | null => {
  const reason = Object.hasOwn(deprecatedVariables, name) ? deprecatedVariables[name] : undefined;
  return reason === undefined ? null : `${name} is deprecated and has no effect: ${reason}`;
};

const prefixes = ["SERVICE_", "GIT_HOST_", "MODEL_API_", "AGENT_CLI_", "AGENT_MODE_", "KV_"];

const known = new Set([
  ...Object.values(variables).flatMap(({ name, fallbacks }) => [name, ...fallbacks]),
  // Set for the agent's own processes, which may call `svc`.
  "SERVICE_INSTANCE",
  "SERVICE_JOB_ID",
  "SERVICE_PROFILE",
]);
