import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { variables, type Settings } from "./variables.ts";

const names = ["agentOauthToken", "modelAuthToken", "modelApiKey"] as const;

type Credentials = Pick<Settings, (typeof names)[number] | "agentEnv" | "agentHome">;

/** What agents use for the model: the variable that holds the credential, or the CLI's login; null: there is none. */
export const modelCredential = (settings: Credentials): string | null => {
  const set = names.find((name) => settings[name] !== null);
  if (set !== undefined) return variables[set].name;
  // The CLI uses a cloud provider's credentials where a variable asks for it.
  const cloud = settings.agentEnv.find((name) => name.startsWith("CLAUDE_CODE_USE_"));
  if (cloud !== undefined) return cloud;
  return isLoggedIn(settings) ? `The login of the agent CLI in ${loginDirectory(settings)}` : null;
};

/**
 * Stands for the token in use, whose usage limit its jobs share: the first 12 digits of its SHA-256. Another login is
 * taken for every instance's own.
 */
export const credentialDigest = (settings: Credentials & Pick<Settings, "podName">): string => {
  const [token] = names.flatMap((name) => settings[name] ?? []);
  const login = `${settings.podName}:${loginDirectory(settings)}`;
  return hash("sha256", token ?? login).slice(0, 12);
};

/** What becomes of a job at a usage limit, unless its profile says so: that of a subscription ends by itself. */
export const usualAtLimit = (settings: Credentials): "wait" | "fail" => {
  if (settings.agentOauthToken !== null) return "wait";
  const hasKey = settings.modelAuthToken !== null || settings.modelApiKey !== null;
  return !hasKey && isLoggedIn(settings) ? "wait" : "fail";
};

/** Whether there is a key that can take the place of the token in use. */
export const hasOtherKey = ({ agentOauthToken, modelAuthToken, modelApiKey }: Credentials): boolean =>
  modelApiKey !== null && (agentOauthToken ?? modelAuthToken) !== null;

/** The settings with ANTHROPIC_API_KEY in the place of the token in use. */
export const withOtherKey = <Given extends Credentials>(settings: Given): Given => ({
  ...settings,
  agentOauthToken: null,
  modelAuthToken: null,
});

/** Where the agent CLI looks for its login, whatever its configuration directory is. */
export const loginDirectory = ({ agentHome }: Pick<Settings, "agentHome">): string =>
  join(agentHome, ".claude");

/** Why agents cannot use the model; null: they can, or the operator says that they need no credential. */
export const modelProblem = (
  settings: Credentials & Pick<Settings, "allowNoModelCredential">,
): string | null =>
  settings.allowNoModelCredential || modelCredential(settings) !== null ? null : noModelCredential;

const noModelCredential =
  "No model credential is set, so no agent can work: set ANTHROPIC_API_KEY, or AGENT_CLI_OAUTH_TOKEN (claude setup-token makes one), and restart the service. docs/operate/credentials.md has other ways";

/** The file may also hold logins of MCP servers alone. */
const isLoggedIn = (settings: Credentials): boolean => {
  try {
    return readFileSync(join(loginDirectory(settings), ".credentials.json"), "utf8").includes(
      '"claudeAiOauth"',
    );
  } catch {
    return false;
  }
};
