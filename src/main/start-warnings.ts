import type { Settings } from "../config/variables.ts";
import { findExecutable } from "../lib/process/executable.ts";
import { selfTest } from "../repos/self-test.ts";

type Surroundings = {
  settings: Settings;
  /** The service's own environment. */
  env: NodeJS.ProcessEnv;
  root: boolean;
  signal: AbortSignal;
};

/**
 * What will make jobs fail or is dangerous, a sentence each: told at the start, not by the first job. The service starts
 * all the same, because jobs can be looked at without any of it, and it may be mended while the service runs.
 */
export const startWarnings = async ({ settings, env, root, signal }: Surroundings): Promise<string[]> => {
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
    ...(hasToken && !gh.ok
      ? [`${gh.message} Branches will be pushed, but no pull request opened: install gh, the git host's CLI`]
      : []),
    ...repositories.map((problem) => `${problem} Jobs with a repository will fail`),
  ];
};
