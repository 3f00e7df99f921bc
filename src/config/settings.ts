import { join } from "node:path";
import { ConfigError } from "./config-error.ts";
import { fileModeWarning, readConfigFile, type ConfigFile } from "./file.ts";
import { shortKeys } from "./key-strength.ts";
import { isLoopbackHost } from "./formats.ts";
import { homeDirectory } from "./home.ts";
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
export const loadSettings = ({
  env,
  home = homeDirectory(),
  file,
  role = "server",
}: Request): LoadedSettings => {
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
  const findings = ({ all, server }: typeof faultRules): string[] =>
    [...all, ...(role === "server" ? server : [])].flatMap((check) => check(parsed));
  faults.push(...findings(faultRules));
  if (faults.length > 0) throw new ConfigError(faults);

  const settings = parsed as Settings;
  settings.allowLocalRepos ??= isLoopbackHost(settings.host) && settings.apiKeys.length === 0;
  if (settings.tracingPublicKey !== null && settings.tracingSecretKey !== null)
    settings.tracingHost ??= vendorCloud;
  return {
    settings,
    sources,
    warnings: [...environmentWarnings(env), ...findings(warningRules), ...modeWarning(configFile)],
  };
};

const modeWarning = ({ path, values }: ConfigFile): string[] => {
  const holdsSecret = Object.values<Variable>(variables).some(
    ({ yaml, secret }) => secret && values.has(yaml),
  );
  const warning = holdsSecret ? fileModeWarning(path) : null;
  return warning === null ? [] : [warning];
};

/** Sentences about more than one setting. */
type Rule = (settings: Partial<Settings>) => string[];

/** A rule is skipped when one of its settings is itself at fault, so that no consequences are reported. */
const rule =
  <Needed extends SettingName>(
    needs: readonly Needed[],
    check: (settings: Pick<Settings, Needed>) => string[],
  ): Rule =>
  (settings) =>
    needs.every((name) => settings[name] !== undefined) ? check(settings as Pick<Settings, Needed>) : [];

const reachOf = (host: string): string =>
  `SERVICE_HOST is ${host}, which other machines can reach, and SERVICE_API_KEYS is not set`;

const openDoor = rule(["host", "apiKeys", "allowOpen"], ({ host, apiKeys, allowOpen }) =>
  isLoopbackHost(host) || apiKeys.length > 0 || allowOpen
    ? []
    : [
        `${reachOf(host)}; set SERVICE_API_KEYS, or SERVICE_HOST=127.0.0.1, or SERVICE_ALLOW_OPEN=true to serve without keys`,
      ],
);

const openOnPurpose = rule(["host", "apiKeys", "allowOpen"], ({ host, apiKeys, allowOpen }) =>
  isLoopbackHost(host) || apiKeys.length > 0 || !allowOpen
    ? []
    : [`${reachOf(host)}: whoever reaches it can run code here (SERVICE_ALLOW_OPEN is true)`],
);

const idleHub = rule(["agentMode", "hubAgent"], ({ agentMode, hubAgent }) =>
  agentMode || hubAgent === null
    ? []
    : ["HUB_AGENT has no effect without agent mode: set AGENT_MODE=true as well"],
);

const sharedBudgets = rule(["kvUrl", "telemetryDb", "budgetDayUsd", "budgetKeyDayUsd"], (settings) =>
  settings.kvUrl === null ||
  settings.telemetryDb !== null ||
  (settings.budgetDayUsd === null && settings.budgetKeyDayUsd === null)
    ? []
    : [
        "A budget of several instances (KV_URL) needs one database: set SERVICE_TELEMETRY_DB to a PostgreSQL that all instances share",
      ],
);

const keyStrength = rule(["apiKeys"], ({ apiKeys }) => shortKeys("SERVICE_API_KEYS", apiKeys));

const keyForms = ["gitHostAppPrivateKeyPath", "gitHostAppPrivateKey", "gitHostAppPrivateKeyBase64"] as const;

const appKey = rule(["gitHostAppId", "gitHostAppInstallationId", ...keyForms], (settings) => {
  const namesOf = (keys: readonly SettingName[]): string[] => keys.map((key) => variables[key].name);
  const given = namesOf(keyForms.filter((form) => settings[form] !== null));
  const installation = namesOf(["gitHostAppInstallationId"]);
  const hasInstallation = settings.gitHostAppInstallationId !== null;
  if (settings.gitHostAppId === null) {
    const orphans = [...(hasInstallation ? installation : []), ...given];
    return orphans.length === 0
      ? []
      : [`${orphans.join(" and ")} set without GIT_HOST_APP_ID; set it as well`];
  }
  return [
    ...(hasInstallation ? [] : [`GIT_HOST_APP_ID is set without ${installation.join()}; set it as well`]),
    ...(given.length > 0
      ? []
      : [`GIT_HOST_APP_ID is set without the app's key; set one of ${namesOf(keyForms).join(", ")}`]),
    ...(given.length > 1 ? [`${given.join(" and ")} are set; keep exactly one of them`] : []),
  ];
});

/** The hosted cloud of the tracing vendor. */
const vendorCloud = "https://cloud.langfuse.com";

const tracingKeys = rule(
  ["tracingHost", "tracingPublicKey", "tracingSecretKey", "tracingBasicAuth"],
  ({ tracingHost, tracingPublicKey, tracingSecretKey, tracingBasicAuth }) => {
    if ((tracingPublicKey === null) !== (tracingSecretKey === null))
      return ["Only one of TRACING_PUBLIC_KEY and TRACING_SECRET_KEY is set, which has no effect: set both"];
    return tracingHost === null && tracingBasicAuth !== null && tracingPublicKey === null
      ? [
          `TRACING_BASIC_AUTH is set without TRACING_HOST, so no trace is sent: name its address, as in ${vendorCloud}`,
        ]
      : [];
  },
);

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
const agentEnvironment = rule(["agentEnv"], ({ agentEnv }) =>
  agentEnv
    .filter((name) => neverForAgents.includes(name) || name.startsWith("TRACING_"))
    .map((name) => `SERVICE_AGENT_ENV names ${name}, which is never handed to the agent; take it out`),
);

/** `server`: not for commands that call a service. */
const faultRules = { all: [appKey, agentEnvironment], server: [openDoor, sharedBudgets] };
const warningRules = { all: [keyStrength, tracingKeys], server: [openOnPurpose, idleHub] };

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
