import { homedir } from "node:os";
import { bridgeVariables, type BridgeSettings } from "./bridge-variables.ts";
import { ConfigError } from "./config-error.ts";
import { isLoopbackHost } from "./formats.ts";
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
  { home = homedir(), role = "server" }: { home?: string; role?: "server" | "client" } = {},
): Loaded => {
  const { values, sources, faults } = resolveVariables(bridgeVariables, { env, home, file: null });
  if (faults.length > 0) throw new ConfigError(faults);
  const settings = values as BridgeSettings;
  const rules = role === "client" ? [] : [...openDoor(settings), ...oauthFaults(env)];
  if (rules.length > 0) throw new ConfigError(rules);
  const known = new Set(
    Object.values(bridgeVariables).flatMap(({ name, fallbacks }) => [name, ...fallbacks]),
  );
  const warnings = Object.entries(env).flatMap(([name, value = ""]) =>
    value.trim() === "" ? [] : (unknownVariable(name, { prefixes: ["BRIDGE_", "OAUTH_"], known }) ?? []),
  );
  return { settings, sources, warnings };
};

const openDoor = ({ transport, host, apiKeys, allowOpen }: BridgeSettings): string[] =>
  transport === "stdio" || allowOpen || isLoopbackHost(host) || apiKeys.length > 0
    ? []
    : [
        `BRIDGE_HOST is ${host}, which other machines can reach, and BRIDGE_API_KEYS is not set; set BRIDGE_API_KEYS, or BRIDGE_HOST=127.0.0.1, or BRIDGE_ALLOW_OPEN=true to serve without keys`,
      ];

/** A service that ignores it would be open to callers that the operator meant to sign in. */
const oauthFaults = (env: NodeJS.ProcessEnv): string[] =>
  env["OAUTH_ISSUER_URL"]?.trim()
    ? ["OAUTH_ISSUER_URL is set, and this version has no OAuth; unset it, and set BRIDGE_API_KEYS"]
    : [];
