import { join } from "node:path";
import { bridgeVariables, type BridgeSettings } from "./bridge-variables.ts";
import { ConfigError } from "./config-error.ts";
import { isLoopbackHost } from "./formats.ts";
import { homeDirectory } from "./home.ts";
import { shortKeys } from "./key-strength.ts";
import { resolveVariables, unknownVariable, type Source } from "./resolve.ts";

type Loaded = {
  settings: BridgeSettings;
  sources: Record<keyof BridgeSettings, Source>;
  /** Sentences for the log: the configuration works, but perhaps not as intended. */
  warnings: string[];
};

/**
 * Settings of the transcript service: environment over default.
 * @param role `client`: for a command that only reads; rules about listening do not apply
 * @throws ConfigError naming every fault
 */
export const loadBridgeSettings = (
  env: NodeJS.ProcessEnv,
  { home = homeDirectory(), role = "server" }: { home?: string; role?: "server" | "client" } = {},
): Loaded => {
  const { values, sources, faults } = resolveVariables(bridgeVariables, { env, home, file: null });
  if (faults.length > 0) throw new ConfigError(faults);
  const settings = followed(values as BridgeSettings, { env, home, sources });
  const rules = role === "client" ? [] : [...openDoor(settings), ...oauthFaults(settings)];
  if (rules.length > 0) throw new ConfigError(rules);
  const known = new Set(
    Object.values(bridgeVariables).flatMap(({ name, fallbacks }) => [name, ...fallbacks]),
  );
  const warnings = Object.entries(env).flatMap(([name, value = ""]) =>
    value.trim() === "" ? [] : (unknownVariable(name, { prefixes: ["BRIDGE_", "OAUTH_"], known }) ?? []),
  );
  if (role === "server") warnings.push(...shortKeys("BRIDGE_API_KEYS", settings.apiKeys));
  return { settings, sources, warnings };
};

/** Where the jobs of this user are: their transcripts beside those of the shell, and the service's port. */
const followed = (
  settings: BridgeSettings,
  { env, home, sources }: { env: NodeJS.ProcessEnv; home: string; sources: Loaded["sources"] },
): BridgeSettings => {
  const port = env["SERVICE_PORT"]?.trim() ?? "";
  const { agentHomes: from, orchestratorUrl: by } = sources;
  return {
    ...settings,
    ...(from.from === "environment" &&
      from.name === "CLAUDE_CONFIG_DIR" && { agentHomes: [...settings.agentHomes, join(home, ".service")] }),
    ...(by.from === "default" &&
      /^[1-9]\d{0,4}$/.test(port) && { orchestratorUrl: `http://127.0.0.1:${port}` }),
  };
};

const openDoor = ({ transport, host, apiKeys, allowOpen }: BridgeSettings): string[] =>
  transport === "stdio" || allowOpen || isLoopbackHost(host) || apiKeys.length > 0
    ? []
    : [
        `BRIDGE_HOST is ${host}, which other machines can reach, and BRIDGE_API_KEYS is not set; set BRIDGE_API_KEYS, or BRIDGE_HOST=127.0.0.1, or BRIDGE_ALLOW_OPEN=true to serve without keys`,
      ];

const oauthFaults = ({
  oauthIssuer,
  oauthClientId,
  oauthClientSecret,
  oauthScopes,
}: BridgeSettings): string[] => {
  const faults: string[] = [];
  if (oauthIssuer !== null) {
    const { protocol, hostname, search, hash } = new URL(oauthIssuer);
    if (protocol !== "https:" && !isLoopbackHost(hostname))
      faults.push(`OAUTH_ISSUER_URL is ${oauthIssuer}: it must be an https:// URL, or one of this machine`);
    if (search !== "" || hash !== "")
      faults.push(`OAUTH_ISSUER_URL is ${oauthIssuer}: it must have no query and no fragment`);
  }
  if (oauthClientSecret !== null && oauthClientId === null)
    faults.push("OAUTH_CLIENT_SECRET is set without OAUTH_CLIENT_ID; set it as well");
  const unknown = oauthScopes.filter((scope) => !["read", "dispatch"].includes(scope));
  if (unknown.length > 0)
    faults.push(`OAUTH_ALLOWED_SCOPES names ${unknown.join(", ")}: the scopes are read and dispatch`);
  return faults;
};
