import { locateCli } from "../agents/claude/locate.ts";
import { modelProblem } from "../config/model-credential.ts";
import { findExecutable } from "../lib/process/executable.ts";
import type { Profiles } from "../profiles/profile.ts";
import { selfTest } from "../repos/self-test.ts";
import type { ServiceContext } from "./context.ts";
import { openToAccounts } from "./open-access.ts";

/** Faults that will fail jobs, and dangers, a sentence each. The service starts all the same: jobs can be read. */
export const startWarnings = async (
  { settings, env, signal }: ServiceContext,
  profiles: Pick<Profiles, "list">,
): Promise<string[]> => {
  const [agentCli, gh, repositories, open] = await Promise.all([
    locateCli(settings.agentCliBinary, env["PATH"]).then((cli) => findExecutable(cli, env["PATH"] ?? "")),
    findExecutable("gh", env["PATH"] ?? ""),
    selfTest({ settings, env, signal }),
    openToAccounts(settings),
  ]);
  const hasToken = settings.gitHostToken !== null || settings.gitHostAppId !== null;
  const broken = (await profiles.list()).filter(({ error }) => error !== null);
  return [
    process.getuid?.() === 0 &&
      "The service runs as root, and so does every agent: give it a user of its own without rights elsewhere",
    open,
    !agentCli.ok &&
      `${agentCli.message} Every job will fail: install the agent CLI or point SERVICE_AGENT_CLI_BINARY at it`,
    modelProblem(settings),
    hasToken &&
      !gh.ok &&
      `${gh.message} Branches will be pushed, but no pull request opened: install gh, the git host's CLI`,
    ...broken.map(({ name, error }) => `Profile ${name} cannot be used: ${error}`),
    ...repositories.map((problem) => `${problem} Jobs with a repository will fail`),
  ].filter((warning) => typeof warning === "string");
};
