import { variables, type Settings } from "./variables.ts";

const names = ["agentOauthToken", "modelAuthToken", "modelApiKey"] as const;

/** The variable that holds the credential which agents use for the model; null: there is none. */
export const modelCredential = (
  settings: Pick<Settings, (typeof names)[number] | "agentEnv">,
): string | null => {
  const set = names.find((name) => settings[name] !== null);
  if (set !== undefined) return variables[set].name;
  // The CLI uses a cloud provider's credentials where a variable asks for it.
  return settings.agentEnv.find((name) => name.startsWith("CLAUDE_CODE_USE_")) ?? null;
};

export const noModelCredential =
  "No model credential is set, and a login of the agent CLI itself is not used: set AGENT_CLI_OAUTH_TOKEN (claude setup-token makes one), MODEL_API_AUTH_TOKEN or ANTHROPIC_API_KEY, or jobs will fail";
