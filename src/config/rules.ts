import { isLoopbackHost } from "./loopback.ts";
import { variables } from "./variables.ts";
import type { SettingName, Settings } from "./variables.ts";

export type Findings = { faults: string[]; warnings: string[] };

/**
 * Rules over more than one setting. A rule is skipped when one of its settings is itself at fault, so that no
 * consequences are reported. `role` client: only what the `svc` commands need.
 */
export const checkTogether = (settings: Partial<Settings>, role: "server" | "client"): Findings => {
  const findings = [keyStrength(settings), appKey(settings), agentEnvironment(settings)];
  if (role === "server") findings.push(openDoor(settings), idleHub(settings));
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

const shortestGoodKey = 8;

const keyStrength = rule(["apiKeys"], ({ apiKeys }) => {
  const warnings = apiKeys.flatMap((key, index) =>
    key.length >= shortestGoodKey
      ? []
      : [
          `SERVICE_API_KEYS: key number ${index + 1} has fewer than ${shortestGoodKey} characters and can be guessed`,
        ],
  );
  return { faults: [], warnings };
});

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

const neverForAgents = [
  variables.apiKeys.name,
  variables.apiKey.name,
  variables.gitHostToken.name,
  variables.gitHostAppPrivateKey.name,
  variables.gitHostAppPrivateKeyBase64.name,
  variables.kvUrl.name,
];

/** A repository's content can make the agent reveal what it can read. */
const agentEnvironment = rule(["agentEnv"], ({ agentEnv }) => {
  const asked = agentEnv.filter((name) => neverForAgents.includes(name) || name.startsWith("TRACING_"));
  const faults = asked.map(
    (name) => `SERVICE_AGENT_ENV names ${name}, which is never handed to the agent; take it out`,
  );
  return { faults, warnings: [] };
});
