import { targetsOf, type Companions } from "../companions/companions.ts";
import type { Chat } from "../chat/chat.ts";
import type { Completions } from "../chat/completions.ts";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Overview } from "../contract/instance.ts";
import type { Handlers } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { Volume } from "../contract/worktree.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Messages } from "../jobs/messages.ts";
import type { Submit } from "../jobs/submit.ts";
import type { Environments } from "../place/environments.ts";
import { matchesRepository } from "../profiles/match.ts";
import type { Limits, Profiles, ResolvedProfile } from "../profiles/profile.ts";
import { parseHosts } from "../lib/allowed-hosts.ts";
import type { Secrets } from "../secrets/secrets.ts";
import { toJob } from "../store/job-record.ts";
import type { TelemetrySink } from "../telemetry/sink.ts";
import type { createBudgets } from "../telemetry/budgets.ts";
import type { Worktrees } from "../worktrees/worktrees.ts";
import { resolveIdPrefixes, type IdStores } from "./id-prefixes.ts";
import { waitForJob } from "./wait-for-job.ts";
import { isCalled, repositoryName } from "../contract/repository-url.ts";
import type { RunTaskInput } from "../contract/job.ts";
import type { RunOptions } from "../contract/run-options.ts";
import type { Repos } from "../repos/repos.ts";

type Budgets = ReturnType<typeof createBudgets>;

type Dependencies = {
  stores: IdStores;
  jobs: Jobs;
  submit: Submit;
  messages: Messages;
  profiles: Profiles;
  companions: Pick<Companions, "sync">;
  worktrees: Worktrees;
  disks: { volumes: () => Promise<Volume[]> };
  secrets: Pick<Secrets, "list" | "set" | "remove">;
  environments: Pick<Environments, "usage" | "clear">;
  instances: { overview: () => Promise<Overview> };
  telemetry: Pick<TelemetrySink, "usage">;
  budgets: Pick<Budgets, "list">;
  settings: Pick<Settings, "minFreeDiskBytes" | "envCacheBytes" | "podName">;
  agentMode: { completions: Completions; chat: Pick<Chat, "visibility" | "setVisibility"> } | null;
};

/** The operations as the doors call them. */
export const createHandlers = (deps: Dependencies): Handlers<Operations> =>
  resolveIdPrefixes(handlersOf(deps), deps.stores);

const handlersOf = (deps: Dependencies): Handlers<Operations> => {
  const { jobs, profiles, worktrees, agentMode } = deps;
  return {
    run_task: async (input, context) => {
      const record = await deps.submit(input, context);
      const answered = input.wait ? await jobs.untilFinal(record.id, context.signal) : record;
      return { success: true, job: toJob(answered) };
    },
    get_job: async ({ job_id }) => ({ success: true, job: toJob(await jobs.get(job_id)) }),
    wait_for_job: async (input, context) => ({
      success: true,
      job: toJob(await waitForJob(jobs, input, context)),
    }),
    list_jobs: async (input) => {
      const { records, next } = await jobs.list(input);
      return { success: true, count: records.length, jobs: records.map(toJob), next_cursor: next };
    },
    answer_job: async (input) => ({ success: true, job: toJob(await jobs.answer(input)) }),
    message_job: (input, context) => deps.messages.say(input, context),
    take_back_message: async (input, context) => ({
      success: true,
      message: await deps.messages.takeBack(input, context),
    }),
    cancel_job: async ({ job_id }) => ({ success: true, job: toJob(await jobs.cancel(job_id)) }),
    list_files: async ({ job_id }) => {
      const { id, files } = await jobs.get(job_id);
      return { success: true, job_id: id, files };
    },
    get_diff: async ({ job_id, ...asked }, { signal }) => {
      const record = await jobs.get(job_id);
      return { success: true, ...(await worktrees.diff({ ...asked, record, signal })) };
    },
    list_profiles: async () => {
      const all = await profiles.list();
      return { success: true, count: all.length, profiles: all };
    },
    prepare_worktree: async (input, context) => {
      const worktree = await worktrees.prepare(input, context);
      return { success: true, worktree_id: worktree.worktree_id, worktree };
    },
    get_worktree: async ({ worktree_id }) => ({ success: true, worktree: await worktrees.get(worktree_id) }),
    list_worktrees: async (input) => {
      const { worktrees: page, next } = await worktrees.list(input);
      return { success: true, count: page.length, worktrees: page, next_cursor: next };
    },
    cleanup_worktrees: async (input, context) => {
      const { removed, results } = await worktrees.cleanup(input, context);
      return { success: true, removed, dry_run: input.dry_run, results };
    },
    get_disk_usage: async () => {
      const { disks, environments, settings } = deps;
      const [volumes, repositories, kept] = await Promise.all([
        disks.volumes(),
        worktrees.usage(),
        environments.usage(),
      ]);
      return {
        success: true,
        min_free_bytes: settings.minFreeDiskBytes,
        volumes,
        repositories,
        max_environment_bytes: settings.envCacheBytes,
        environments: kept,
      };
    },
    clear_environments: async ({ repo }) => {
      const isWanted = (url: string): boolean =>
        repo === "" || isCalled(url, repo) || matchesRepository([repo], url);
      return { success: true, ...(await deps.environments.clear(isWanted)) };
    },
    list_secrets: async () => {
      const secrets = await deps.secrets.list();
      return { success: true, count: secrets.length, secrets };
    },
    set_secret: async (input) => ({ success: true, secret: await deps.secrets.set(input) }),
    remove_secret: async (input) => ({ success: true, secret: await deps.secrets.remove(input) }),
    list_instances: async () => {
      const overview = await deps.instances.overview();
      return {
        success: true,
        count: overview.instances.length,
        ...overview,
        answered_by: deps.settings.podName,
      };
    },
    sync_companions: ({ target }, { signal }) => deps.companions.sync(targetsOf(target), signal),
    get_usage: async (input, { principal }) => {
      const [usage, all] = await Promise.all([deps.telemetry.usage(input), profiles.list()]);
      return { ...usage, budgets: await deps.budgets.list(principal, all) };
    },
    agent_completions: (input, context) => required(agentMode).completions.submit(input, context),
    get_completion: (input, context) => required(agentMode).completions.get(input, context),
    list_completions: (input, context) => required(agentMode).completions.list(input, context),
    cancel_completion: (input, context) => required(agentMode).completions.cancel(input, context),
    get_visibility: async () => ({ success: true, visibility: await required(agentMode).chat.visibility() }),
    set_visibility: async (changes) => ({
      success: true,
      visibility: await required(agentMode).chat.setVisibility(changes),
    }),
  };
};

/** The doors do not offer these operations when agent mode is off. */
const required = <Part>(agentMode: Part | null): Part => {
  if (agentMode === null)
    throw new ServiceError("not_found", "Agent mode is off; start the service with AGENT_MODE=true");
  return agentMode;
};

type TaskChecks = {
  repos: Repos;
  profiles: Profiles;
  /** Throws a `ServiceError` when agents cannot use the model, or a budget is spent. */
  requireAgent: Budgets["require"];
  secrets: Pick<Secrets, "requireSandbox">;
};

/** Checks what a submitted task names: repository, base ref, MCP file, profile and its budget. Throws a `ServiceError`. */
export const createTaskCheck =
  ({ repos, profiles, requireAgent, secrets }: TaskChecks) =>
  async (
    { repo_url, base_ref, repositories, file_path, profile: name, task, options, allow_hosts }: RunTaskInput,
    principal: string,
  ) => {
    const repoUrl = repos.parseUrl(repo_url);
    if (base_ref !== "") repos.checkRef(base_ref);
    if (options.branch !== null) repos.checkRef(options.branch);
    const further = furtherOf(repositories, { repos, repoUrl });
    const urls = [repoUrl, ...further.map((each) => each.repo_url)];
    await Promise.all([...urls.map(repos.checkLocalRepository), profiles.checkMcpFile(file_path)]);
    const profile = await profiles.route({ name, task, repoUrl });
    requireWithin(options, profile);
    if (options.deliver_only === true && !profile.auto_pr)
      throw new ServiceError(
        "invalid_request",
        `options.deliver_only: the profile ${profile.name} pushes nothing; give one with auto_pr: true`,
      );
    requireAllowed(allow_hosts, profile);
    if (options.checks !== null && profile.readOnly)
      throw new ServiceError(
        "invalid_request",
        `options.checks: the profile ${profile.name} may only read, so there is no work to check; leave them out, or give another profile`,
      );
    if (options.setup_only !== true && options.deliver_only !== true)
      await requireAgent({ profile: profile.name, budgetDayUsd: profile.budget_day_usd, principal });
    await secrets.requireSandbox(repoUrl);
    const isGiven = base_ref !== "" || repoUrl === "";
    const base = isGiven ? { baseRef: base_ref, warning: null } : await repos.baseLeftOut(repoUrl);
    return { repoUrl, repositories: further, profile, ...base };
  };

/** The further repositories, by the same rules as the task's own; each once. */
const furtherOf = (
  given: RunTaskInput["repositories"],
  { repos, repoUrl }: { repos: Repos; repoUrl: string },
): RunTaskInput["repositories"] => {
  if (given.length > 0 && repoUrl === "")
    throw new ServiceError("invalid_request", "repositories: need repo_url, the repository to work in");
  const names = new Set([repositoryName(repoUrl)]);
  return given.map(({ repo_url, base_ref }) => {
    const url = repos.parseUrl(repo_url);
    if (base_ref !== "") repos.checkRef(base_ref);
    const name = repositoryName(url);
    if (names.has(name))
      throw new ServiceError("invalid_request", `repositories: ${url} is named twice; name each once`);
    names.add(name);
    return { repo_url: url, base_ref };
  });
};

/** A submission may lower the limits that the operator has set, not raise them. */
const requireWithin = (options: RunOptions, { name, limits }: { name: string; limits: Limits }): void => {
  for (const key of ["timeout_seconds", "max_budget_usd", "max_turns"] as const) {
    const [asked, most] = [options[key], limits[key]];
    if (asked === null || most === null || asked <= most) continue;
    throw new ServiceError(
      "invalid_request",
      `options.${key}: ${asked} is more than the ${most} that the profile ${name} allows; give at most ${most}, or another profile`,
    );
  }
};

const requireAllowed = (hosts: readonly string[], { name, allowHost }: ResolvedProfile): void => {
  if (hosts.length === 0) return;
  if (!allowHost)
    throw new ServiceError(
      "invalid_request",
      `allow_hosts: the profile ${name} lets no task name hosts; put allow_host: true into it, or the hosts under sandbox.hosts`,
    );
  try {
    parseHosts(hosts);
  } catch (error) {
    throw new ServiceError("invalid_request", `allow_hosts: ${String((error as Error).message)}`);
  }
};
