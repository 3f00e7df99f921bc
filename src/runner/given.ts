import type { AgentLaunch } from "../agents/agent.ts";
import type { TaskFile } from "../contract/run-options.ts";
import type { Run } from "../jobs/run.ts";
import type { Setup } from "../place/plan.ts";
import { noPorts, type Ports, reservePorts } from "../place/ports.ts";
import { servicesScript } from "../place/services.ts";
import { SetupError, type SetUp } from "../place/setup.ts";
import { type CheckDefinition, checksOfCommands } from "../profiles/checks.ts";
import type { Profiles } from "../profiles/profile.ts";
import type { Repos, Worktree } from "../repos/repos.ts";
import { whyWithheld } from "../secrets/plain.ts";
import type { JobSecrets, Secrets } from "../secrets/secrets.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { TaskFiles } from "../store/task-files.ts";
import { leftOf } from "./asking.ts";
import { attach, type Attached } from "./attached.ts";
import { checksOf } from "./checks.ts";
import type { Progress } from "./ends.ts";
import { type Place, prepare } from "./place.ts";
import type { SecretCare } from "./secrets.ts";

export type Readying = {
  profiles: Profiles;
  repos: Repos;
  taskFiles: TaskFiles;
  setup: SetUp;
  secrets: Pick<Secrets, "forJob">;
  /** Whether a branch of the repository is, or may be, one that this service pushed. */
  isOwnBranch: (repoUrl: string, branch: string) => Promise<boolean>;
  settings: { portRange: string };
};

type Pinned = Awaited<ReturnType<Profiles["pin"]>>;

/** What all steps of a run are given. */
export type Given = {
  run: Run;
  profile: Pinned;
  place: Place;
  definitions: CheckDefinition[];
  progress: Progress;
  secrets: JobSecrets;
  files: Attached;
  /** Its ports, and what its setup says for its checks. */
  within: Pick<AgentLaunch, "env" | "before" | "mounts" | "ports">;
  /** The agent's own variables and script, without those that `within` has for checks alone. */
  forAgent: Pick<AgentLaunch, "env" | "before">;
};

/** Readies all that a job's agent and checks are given. */
export const createReadying = (deps: Readying, care: SecretCare) => {
  const { profiles, repos } = deps;

  const portsFor = async (run: Run): Promise<Ports | null> => {
    const { portRange } = deps.settings;
    const ports = await reservePorts(portRange);
    if (ports === null) run.warn(noPorts(portRange));
    return ports;
  };

  /** Where the job's agent works, made ready. */
  const placeOf = async (record: JobRecord, run: Run, progress: Progress, ports: Ports | null) => {
    const profile = await profiles.pin(record.profile);
    const onMade = (worktree: Worktree): void => {
      progress.worktree = worktree;
      progress.isThrowaway = profile.readOnly || record.options.setup_only === true;
    };
    const place = await prepare(record, run, { profile, repos, onMade });
    const known = await checksOf(profile, place.own, { repos, signal: run.signal });
    const own = [...known, ...checksOfCommands(record.options.checks ?? [])];
    const isFirst = isFirstRun(record);
    const warn = isFirst ? run.warn : () => undefined;
    const mustPass = record.options.must_pass === true;
    const definitions = own.map((check) => ({ ...check, mustPass: mustPass || check.mustPass }));
    if (mustPass && own.length === 0) warn("must_pass: the job has no checks that could fail it");
    const setup = await deps.setup.of(profile, place.own, { warn, signal: run.signal });
    const env = { ...ports?.env, ...setup?.env };
    const within = {
      ...(setup && (await deps.setup.within(setup, place.own))),
      env,
      ...(ports && { ports: ports.numbers }),
    };
    const all = await run.whileReachable(() => deps.secrets.forJob(place.own.repoUrl, record.id));
    const secrets = await care.markPublic(all, place, { warn, signal: run.signal });
    const files: Attached = { parts: [], said: null };
    const forAgent = forAgentOf(setup, env);
    const given: Given = { run, profile, place, definitions, progress, within, forAgent, secrets, files };
    if (setup !== null && isFirst && needsSetup(record, definitions))
      await ready(record, { ...setup, env }, given);
    else await care.warnOfLeft(given);
    // A setup may remove what is not of the commit.
    const attached = await run.whileReachable(() => filesOf(record));
    Object.assign(files, await attach(attached, { worktree: place.worktree.path, goesOn: !isFirst }));
    if (isFirst) for (const { worktree } of [place, ...place.others]) await repos.markAgentWork(worktree);
    return { setup, given };
  };

  /** @throws SetupError when its agent is not to be started */
  const ready = async (record: JobRecord, setup: Setup, given: Given): Promise<void> => {
    const { id: jobId, worktree_id: worktreeId, job_config_dir: configDir } = record;
    const isUntouched = configDir === null && (worktreeId === null || worktreeId === jobId);
    const { run, place } = given;
    const launch = await launchOf(record, given);
    const goesOnFailed = setup.goesOnFailed && record.options.setup_only !== true;
    const { worktree } = place;
    const { branch, ...secrets } = await baseOf(setup, given, isUntouched);
    const job = { jobId, run, worktree, launch, isUntouched, branch, ...secrets };
    const setUp = care.afterSetup(given, () => deps.setup.run({ ...setup, goesOnFailed }, job));
    await setUp.catch(async (error: unknown) => {
      // No agent has worked there, and what fills the disk would keep it full.
      if (error instanceof SetupError && error.isFull && isUntouched) {
        await repos.removeWorktree(worktree, run.signal);
        given.progress.worktree = null;
      }
      throw error;
    });
  };

  /** By the base of the work: the secrets of its setup, why it lacks others, and whose warm environments it shares. */
  const baseOf = async (setup: Setup, { place, secrets, run }: Given, isUntouched: boolean) => {
    const { repoUrl, baseRef: branch } = place.own;
    const isAsked = repoUrl !== "" && (setup.cache !== null || secrets.setup.some(({ plain }) => plain));
    const defaultBranch = isAsked ? await repos.defaultBranch(repoUrl, run.signal) : null;
    const isOwn = branch.startsWith("service/") || (isAsked && (await deps.isOwnBranch(repoUrl, branch)));
    const base = { branch, defaultBranch, isOwn, isUntouched };
    const why = (secret: JobSecrets["setup"][0]) => (secret.plain ? whyWithheld(secret, base) : null);
    return {
      branch: branch === defaultBranch && !isOwn ? "" : branch,
      secrets: secrets.setup.filter((secret) => why(secret) === null),
      lacks: secrets.setup.flatMap((secret) => why(secret) ?? []),
    };
  };

  const launchOf = async (record: JobRecord, { run, profile, place, progress, within }: Given) => {
    const { own, worktree } = place;
    const isFurther = record.resumed_at !== null || progress.agent !== null;
    const launch = await profile.materialise({
      jobId: record.id,
      worktreePath: worktree.path,
      worktreeId: own.worktreeId,
      repoKey: worktree.repoKey,
      filePath: record.request.file_path,
      options: { ...record.options, ...(isFurther ? leftOf(record, profile.limits, run.workedMs()) : {}) },
      allowHosts: record.allow_hosts,
    });
    return { ...launch, ...within };
  };

  const filesOf = async ({ id, options }: JobRecord): Promise<TaskFile[]> => {
    const files = options.files.length === 0 ? [] : await deps.taskFiles.get(id);
    if (files === null) throw new Error("The files of the task are missing; submit it again with them");
    return files;
  };

  return { portsFor, placeOf, launchOf };
};

const isFirstRun = ({ resumed_at, checking, options }: JobRecord): boolean =>
  resumed_at === null && (checking === null || options.deliver_only === true);

/** Without an agent only checks need it. */
const needsSetup = ({ options }: JobRecord, checks: readonly CheckDefinition[]): boolean =>
  options.deliver_only !== true || checks.length > 0;

/** Its services have the variables that are withheld from its CLI. */
const forAgentOf = (setup: Setup | null, env: Record<string, string>): Given["forAgent"] => {
  const { services = [], withheld = {} } = setup ?? {};
  const own = Object.entries(env).filter(([name]) => !Object.hasOwn(withheld, name));
  return { env: Object.fromEntries(own), before: servicesScript(services, withheld) };
};
