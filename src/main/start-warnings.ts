import type { Settings } from "../config/variables.ts";
import { findExecutable } from "../lib/process/executable.ts";
import type { Profiles } from "../profiles/profile.ts";
import { selfTest } from "../repos/self-test.ts";

type Surroundings = {
  settings: Settings;
  /** The service's own environment. */
  env: NodeJS.ProcessEnv;
  profiles: Pick<Profiles, "list">;
  root: boolean;
  signal: AbortSignal;
};

/**
 * Faults that will fail jobs, and dangers, a sentence each. The service warns at start and starts all the same: jobs
 * can be read without any of it, and the faults can be fixed while it runs.
 */
export const startWarnings = async ({
  settings,
  env,
  profiles,
  root,
  signal,
}: Surroundings): Promise<string[]> => {
  const [agentCli, gh, repositories] = await Promise.all([
    findExecutable(settings.agentCliBinary, env["PATH"] ?? ""),
    findExecutable("gh", env["PATH"] ?? ""),
    selfTest({ settings, env, signal }),
  ]);
  const hasToken = settings.gitHostToken !== null || settings.gitHostAppId !== null;
  return [
    ...(root
      ? [
          "The service runs as root, and so does every agent: give it a user of its own without rights elsewhere",
        ]
      : []),
    ...(agentCli.ok
      ? []
      : [
          `${agentCli.message} Every job will fail: install the agent CLI or point SERVICE_AGENT_CLI_BINARY at it`,
        ]),
    ...(hasModelCredential(settings)
      ? []
      : [
          "No model credential is set, and a login of the agent CLI itself is not used: set AGENT_CLI_OAUTH_TOKEN, MODEL_API_AUTH_TOKEN or ANTHROPIC_API_KEY, or jobs will fail",
        ]),
    ...(hasToken && !gh.ok
      ? [`${gh.message} Branches will be pushed, but no pull request opened: install gh, the git host's CLI`]
      : []),
    ...(await profiles.list()).flatMap(({ name, error }) =>
      error === null ? [] : [`Profile ${name} cannot be used: ${error}`],
    ),
    ...repositories.map((problem) => `${problem} Jobs with a repository will fail`),
  ];
};

/** The CLI uses a cloud provider's credentials where a variable asks for it. */
const hasModelCredential = ({ agentOauthToken, modelAuthToken, modelApiKey, agentEnv }: Settings): boolean =>
  [agentOauthToken, modelAuthToken, modelApiKey].some((credential) => credential !== null) ||
  agentEnv.some((name) => name.startsWith("CLAUDE_CODE_USE_"));
