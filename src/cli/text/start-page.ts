import { isLoopbackHost } from "../../config/formats.ts";
import { modelCredential, modelProblem } from "../../config/model-credential.ts";
import type { Settings } from "../../config/variables.ts";
import type { Layout } from "../../view/paint.ts";
import { counted, factLines } from "../../view/columns.ts";

/** What `svc serve` says on a terminal below its address: where things are, what is set, what is missing. */
export const startPage = (settings: Settings, url: string, layout: Layout): string => {
  const credential = modelCredential(settings);
  const { port } = new URL(url);
  const prefix = port === "8200" ? "" : `SERVICE_PORT=${port} `;
  return factLines(
    [
      ["Jobs", settings.kvUrl === null ? settings.jobsDir : "in the key-value store (KV_URL)"],
      ["Repositories", settings.reposRoot],
      ["Worktrees", settings.worktreeRoot],
      [
        "Model",
        modelProblem(settings) === null
          ? `${credential ?? "SERVICE_ALLOW_NO_MODEL_CREDENTIAL"} is set`
          : "no credential: jobs are refused. Set AGENT_CLI_OAUTH_TOKEN (claude setup-token makes one) or ANTHROPIC_API_KEY",
        "prose",
      ],
      ["Git host", gitHost(settings), "prose"],
      ["Access", access(settings), "prose"],
      ["Page", `${url}/ui/`],
      ["API", `${url}/docs`],
      ["Next", `${prefix}svc run "Describe this repository" --wait`],
    ],
    layout,
  ).join("\n");
};

const gitHost = ({ gitHost: host, gitHostToken, gitHostAppId }: Settings): string => {
  if (gitHostAppId !== null) return `${host}, as the app ${gitHostAppId}`;
  if (gitHostToken !== null) return `${host}, with GIT_HOST_TOKEN`;
  return `${host}, without a token: public repositories only, nothing is pushed. Set GIT_HOST_TOKEN`;
};

const access = ({ host, apiKeys }: Settings): string => {
  if (apiKeys.length > 0) return `${counted(apiKeys.length, "API key")} (SERVICE_API_KEYS)`;
  return isLoopbackHost(host)
    ? "open to every user of this machine. Set SERVICE_API_KEYS to ask for a key"
    : `open to whoever reaches ${host}. Set SERVICE_API_KEYS`;
};
