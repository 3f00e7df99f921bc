import type { RunTaskInput } from "../contract/job.ts";
import type { Profiles } from "../profiles/profile.ts";
import type { Repos } from "../repos/repos.ts";

/** Checks what a task names, when it is submitted: its repository, base ref, MCP file and profile. Throws a `ServiceError`. */
export const createTaskCheck =
  ({ repos, profiles }: { repos: Repos; profiles: Profiles }) =>
  async ({ repo_url, base_ref, file_path, profile: name, task }: RunTaskInput) => {
    const repoUrl = repos.parseUrl(repo_url);
    if (base_ref !== "") repos.checkRef(base_ref);
    await Promise.all([repos.checkLocalRepository(repoUrl), profiles.checkMcpFile(file_path)]);
    return { repoUrl, profile: await profiles.route({ name, task, repoUrl }) };
  };
