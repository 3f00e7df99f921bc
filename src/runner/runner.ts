import type { Agent, TurnOutcome } from "../agents/agent.ts";
import type { Execute, Interruption, Outcome, Run, SettleLost } from "../jobs/run.ts";
import { mayRunAgain, wasPushed } from "../jobs/settle.ts";
import type { Log } from "../lib/log.ts";
import { jobMarker } from "../lib/process/marker.ts";
import { killOrphans } from "../lib/process/orphans.ts";
import { leftWarnings } from "../lib/process/sweep.ts";
import type { Redact } from "../lib/redact.ts";
import { ProfileError, type Profiles } from "../profiles/profile.ts";
import { borrowedBy, RepoError, type Repos, type Worktree, type CachedRepo } from "../repos/repos.ts";
import { outlivesInstance, type JobRecord } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";
import type { TaskFiles } from "../store/task-files.ts";
import type { TaskFile } from "../contract/run-options.ts";
import { commitWork, deliver, reportDiscarded } from "./deliver.ts";
import { unanswered } from "../jobs/answer.ts";
import { endedAsking, judge, summaryOf } from "./outcome.ts";
import { afterAsking, type Asking, leftOf, withLostQuestion } from "./asking.ts";
import { LostOwnership, runJobAgent, spentBy, UnknownSession } from "./turn.ts";

type Dependencies = {
  profiles: Profiles;
  repos: Repos;
  taskFiles: TaskFiles;
  agent: Agent;
  newId: () => string;
  /** For texts that leave the service with a pull request. */
  redact: Redact;
  log: Log;
  /** Marks the processes that this instance starts. */
  instance: string;
  /** Seconds between SIGTERM and SIGKILL for orphans of a lost run; short, since nothing reads their answer. */
  orphanGrace: number;
  /** Longest time to save the work of an interrupted job, seconds. */
  salvageTimeout: number;
  /** Why agents run without a sandbox although nobody asked for that; null: it is as asked. */
  sandboxWarning: string | null;
  settings: { questionTtl: number };
};

/** Runs one job: profile → checkout → agent → outcome → commit, push, pull request; or salvage. */
export const createRunner = (deps: Dependencies) => {
  const { profiles, repos, log } = deps;

  const execute: Execute = async (record, run) => {
    const progress: Progress = { worktree: null, isThrowaway: false, agent: null };
    try {
      const outcome = await attempt(record, run, progress);
      await discard(record, progress);
      return outcome;
    } catch (error) {
      const failure = run.signal.aborted
        ? interrupted(run.signal, record, progress)
        : failureOf(error, record);
      if (failure.kind !== "failed" || failure.patch.failure_reason === "internal") {
        log.warn({ err: error, job: record.id }, "the run of the job ended early");
      }
      return await endWith(record, run, progress, failure);
    }
  };

  const attempt = async (record: JobRecord, run: Run, progress: Progress): Promise<Outcome> => {
    if (deps.sandboxWarning !== null) run.warn(deps.sandboxWarning);
    if (record.asked?.answer?.kind === "refuse") return refusedPlan;
    const profile = await profiles.pin(record.profile);
    const place = await prepare(record, run, profile, progress);
    const agent = await runAgent(record, run, profile, place);
    progress.agent = agent;
    const next = afterAsking({ ...agent, questions: profile.questions, stopped: run.signal });
    if (next === "park") return await parked(record, run, progress, agent);
    if (next === "refuse") return await endWith(record, run, progress, refusedPlan);
    if (next === "fail") return await endWith(record, run, progress, unansweredRun(record, agent.asking));
    run.signal.throwIfAborted();
    if (!agent.ok) return await endWith(record, run, progress, failedRun(agent));
    // A push cannot be undone: a job that another instance owns by now must not be delivered here.
    if (!(await run.isOwner())) throw new LostOwnership("another run owns the job");
    run.note(agentFacts(record, agent));
    return await conclude(record, run, profile, { place, agent, progress });
  };

  /** The worktree in which the agent works: `own` is the job's, which a read-only agent gets a copy of. */
  const prepare = async (
    record: JobRecord,
    run: Run,
    profile: Pinned,
    progress: Progress,
  ): Promise<Place> => {
    const own = (await parkedWorktree(record, repos)) ?? (await checkout(record, run, repos));
    const worktree = profile.readOnly && isOlder(record) ? await copyOf(record, own, run.signal) : own;
    progress.worktree = worktree;
    progress.isThrowaway = profile.readOnly;
    const firstHead = await firstHeadOf(record, own, run);
    // What the remote refuses anyway need not be paid for first.
    if (profile.auto_pr && !profile.readOnly && worktree.repoUrl !== "")
      await repos.tryPush(worktree, run.signal);
    return { own, worktree, firstHead };
  };

  const runAgent = async (record: JobRecord, run: Run, profile: Pinned, { own, worktree }: Place) => {
    const launch = await profile.materialise({
      jobId: record.id,
      worktreePath: worktree.path,
      worktreeId: own.worktreeId,
      repoKey: worktree.repoKey,
      filePath: record.request.file_path,
      options: { ...record.options, ...leftOf(record, profile.limits) },
      allowHosts: record.allow_hosts,
      taskFiles: await filesOf(record),
    });
    const turn = {
      record,
      run,
      worktree: own,
      directory: worktree.path,
      borrows: borrowedBy(worktree),
      launch,
      readOnly: profile.readOnly,
      agent: deps.agent,
      profiles,
      newId: deps.newId,
      log,
      questions: profile.questions,
      plan: record.options.plan ?? profile.plan,
      questionTtl: deps.settings.questionTtl,
    };
    const agent = await runJobAgent(turn);
    const hasLost = record.asked?.deferred === true && !agent.ok && !agent.prompted && agent.reason !== null;
    return hasLost ? await runJobAgent({ ...turn, record: withLostQuestion(record) }) : agent;
  };

  /** Commits, judges and delivers the work of an agent that finished well. */
  const conclude = async (
    record: JobRecord,
    run: Run,
    profile: Pinned,
    { place, agent, progress }: { place: Place; agent: TurnOutcome; progress: Progress },
  ): Promise<Outcome> => {
    const { worktree, firstHead } = place;
    const summary = summaryOf(agent);
    const templates = profile.deliver;
    const given = { record, run, worktree, summary, templates, repos, redact: deps.redact };
    const work = profile.readOnly ? await reportDiscarded(given) : await commitWork(given);
    const changed = work !== null && work.tip !== firstHead;
    const { outcome, question } = judge({ ...agent, changed, readOnly: profile.readOnly });
    const ended = { outcome, summary };
    if (outcome === "question")
      return await endWith(record, run, progress, {
        kind: "failed",
        patch: { ...ended, ...endedAsking(record.id, question) },
      });
    if (question !== null) run.warn(`The agent asks: ${question}`);
    const delivered =
      work === null ? { branch: null } : await deliver({ ...given, work, profile, agent, ended });
    return { kind: "succeeded", patch: { ...agentFacts(record, agent), ...ended, ...delivered } };
  };

  /** Later attempts count what the first one did. */
  const firstHeadOf = async (record: JobRecord, worktree: Worktree, run: Run): Promise<string | null> => {
    const isOwn = !isOlder(record);
    const head = isOwn ? worktree.baseSha : (await repos.inspect(worktree, run.signal)).head;
    const first = record.first_head ?? head;
    run.note({ first_head: first });
    return first;
  };

  /** Its work is saved now: a cancelled or unanswered job has no run that does it. */
  const parked = async (
    record: JobRecord,
    run: Run,
    progress: Progress,
    agent: TurnOutcome,
  ): Promise<Outcome> => {
    const saved = progress.isThrowaway ? {} : await saveWork(record, progress, run.warn);
    return { kind: "parked", deferred: agent.deferred, patch: { ...agentFacts(record, agent), ...saved } };
  };

  const filesOf = async ({ id, options }: JobRecord): Promise<TaskFile[]> => {
    const files = options.files.length === 0 ? [] : await deps.taskFiles.get(id);
    if (files === null) throw new Error("The files of the task are missing; submit it again with them");
    return files;
  };

  /** Saves what is in the worktree, then reports how the run ended. */
  const endWith = async (
    record: JobRecord,
    run: Run,
    progress: Progress,
    outcome: Outcome,
  ): Promise<Outcome> => {
    const spent = progress.agent === null ? {} : agentFacts(record, progress.agent);
    const saved = await saveWork(record, progress, run.warn);
    return { ...outcome, patch: { ...spent, ...outcome.patch, ...saved } };
  };

  /** A read-only agent works in a copy of what earlier jobs left, under the id of its own job. */
  const copyOf = async (record: JobRecord, worktree: Worktree, signal: AbortSignal): Promise<Worktree> => {
    const { id: worktreeId } = record;
    // Left by a lost attempt.
    await repos.removeWorktree({ worktreeId }, signal);
    const source = { worktree, commit: await repos.capture(worktree, signal) };
    const branch = `service/${worktreeId.slice(0, 8)}`;
    const { baseRef, repoUrl: url, repoKey: key, cacheDir: gitDir } = worktree;
    const repo = key === null ? null : { url, key, gitDir, warnings: [] };
    return await repos.addWorktree({ repo, worktreeId, jobId: worktreeId, branch, baseRef, source, signal });
  };

  /** Discards all of it. */
  const discard = async (
    record: JobRecord,
    { isThrowaway }: Pick<Progress, "isThrowaway">,
  ): Promise<void> => {
    if (!isThrowaway) return;
    const signal = AbortSignal.timeout(deps.salvageTimeout * 1000);
    await repos.removeWorktree({ worktreeId: record.id }, signal).catch((err: unknown) => {
      log.warn({ err, job: record.id }, "the throwaway worktree of a read-only job could not be removed");
    });
  };

  const saveWork = async (
    record: JobRecord,
    { worktree, isThrowaway }: Omit<Progress, "agent">,
    warn: (message: string) => void,
  ): Promise<JobPatch> => {
    if (worktree === null) return {};
    if (isThrowaway) {
      await discard(record, { isThrowaway });
      return {};
    }
    const signal = AbortSignal.timeout(deps.salvageTimeout * 1000);
    try {
      const { ref, kept } = await repos.salvage(worktree, record.id, signal);
      if (kept.length > 0)
        warn(`The worktree ${worktree.path} is kept, because git cannot save all of it: ${kept.join(", ")}`);
      return ref === null ? {} : { salvage_ref: ref, branch: worktree.branch };
    } catch (error) {
      const said = "the job's unfinished work could not be saved; its worktree is kept";
      log.error({ err: error, job: record.id }, said);
      const why = message(error).replace(/\nWhat to do: .*/, "");
      warn(`The unfinished work could not be saved (${why}); it is still in ${worktree.path}, which is kept`);
      return {};
    }
  };

  const settleLost: SettleLost = async (record) => {
    const worktreeId = record.worktree_id ?? record.id;
    const worktree = await repos.findWorktree(worktreeId);
    const left = await killOrphans(record.process, jobMarker(record.id, deps.instance), {
      graceSeconds: deps.orphanGrace,
    });
    // It ended well: retention handles its worktree like that of any other such job.
    if (record.status !== "cancelled" && wasPushed(record)) return { requeue: false, patch: {} };
    const again = mayRunAgain(record);
    if (record.status === "running" && (again || outlivesInstance(record)))
      return { requeue: true, patch: {} };
    const warnings = [...record.warnings, ...leftWarnings(left)];
    const isThrowaway = record.read_only === true;
    const saved = await saveWork(record, { worktree, isThrowaway }, (text) => warnings.push(text));
    return { requeue: false, patch: { ...saved, warnings } };
  };

  return {
    execute,
    settleLost,
    removeConfig: async ({ id, options }: JobRecord): Promise<void> => {
      await profiles.discard(id);
      if (options.files.length > 0) await deps.taskFiles.remove(id);
    },
  };
};

type Pinned = Awaited<ReturnType<Profiles["pin"]>>;

/** `firstHead`: the commit that was checked out when the job's first agent started. */
type Place = { own: Worktree; worktree: Worktree; firstHead: string | null };

type Progress = {
  worktree: Worktree | null;
  /** The worktree of a read-only profile: it is removed with the run. */
  isThrowaway: boolean;
  agent: TurnOutcome | null;
};

/**
 * Whether the job's worktree existed before the job (prepared, or of a resumed session); the job's own one has its id.
 */
const isOlder = ({ id, worktree_id }: JobRecord): boolean => worktree_id !== null && worktree_id !== id;

/** What the agent's outcome adds to a job, however it ended. */
const agentFacts = (record: JobRecord, agent: TurnOutcome): JobPatch => ({
  exit_code: agent.exitCode,
  output: agent.text === "" ? null : agent.text,
  num_turns: agent.numTurns === null ? record.num_turns : (record.num_turns ?? 0) + agent.numTurns,
  ...spentBy(record, agent),
  ...(agent.sessionId === null ? {} : { session_id: agent.sessionId }),
  ...(agent.model === null ? {} : { model: agent.model }),
});

/** The plan is not wanted: nothing is done. */
const refusedPlan: Outcome = { kind: "succeeded", patch: { outcome: "plan" } };

/** That in which the job was parked; null: there is none, or the job was not. */
const parkedWorktree = async (record: JobRecord, repos: Repos): Promise<Worktree | null> =>
  record.resumed_at === null ? null : await repos.findWorktree(record.worktree_id ?? record.id);

const unansweredRun = (record: JobRecord, { waiting }: Asking): Outcome => ({
  kind: "failed",
  patch: waiting === null ? {} : unanswered(record.id, waiting),
});

const failedRun = (agent: TurnOutcome): Outcome => ({
  kind: "failed",
  patch: { failure_reason: agent.reason ?? "internal", retryable: agent.retryable, error: agent.error },
});

const interrupted = (signal: AbortSignal, record: JobRecord, { agent }: Progress): Outcome => {
  const reason = signal.reason as Interruption;
  const isFenced = reason === "fence";
  // A run whose agent got no prompt can be repeated. If no instance took over a fenced job after all, it is queued
  // again as a lost one would be.
  if (reason !== "cancel" && (record.retry_lost || (!agent?.prompted && !isFenced)))
    return { kind: "requeue", patch: { pid: null, process: null } };
  const what = isFenced ? "The instance lost touch with the others" : "The service was stopped";
  const next = `svc ${agent?.prompted === true ? "continue" : "retry"} ${record.id.slice(0, 8)}`;
  const error = `${what} while the job ran.\nWhat to do: ${next}.`;
  return { kind: "failed", patch: { failure_reason: "instance_lost", retryable: true, error } };
};

/** Attempts of a job that fails because the shared store is unreachable before its agent has started. */
const maxAttempts = 5;

const failureOf = (error: unknown, { attempt }: JobRecord): Outcome => {
  const failed = (reason: NonNullable<JobPatch["failure_reason"]>, retryable: boolean): Outcome => ({
    kind: "failed",
    patch: { failure_reason: reason, retryable, error: message(error) },
  });
  if (error instanceof RepoError && error.again && attempt < maxAttempts)
    return { kind: "requeue", patch: { pid: null, process: null } };
  if (error instanceof RepoError) return failed(error.reason, error.retryable);
  if (error instanceof ProfileError) return failed(error.reason, false);
  if (error instanceof UnknownSession) return failed("agent_error", false);
  return failed("internal", true);
};

const message = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Makes the job's worktree: creates the repository if asked, fetches the cache, adds the worktree. */
const checkout = async (record: JobRecord, run: Run, repos: Repos): Promise<Worktree> => {
  const repo = record.repo_url === "" ? null : await fetchRepo(record, run, repos);
  const worktreeId = record.worktree_id ?? record.id;
  const worktree = await repos.addWorktree({
    repo,
    worktreeId,
    jobId: record.id,
    branch: record.branch ?? record.options.branch ?? `service/${record.id.slice(0, 8)}`,
    mustBeNew: record.branch === null && record.options.branch !== null,
    baseRef: record.base_ref,
    signal: run.signal,
  });
  for (const warning of worktree.warnings) run.warn(warning);
  run.note({
    worktree_id: worktreeId,
    worktree_path: worktree.path,
    cached_clone: worktree.cacheDir,
    branch: worktree.branch,
    base_ref: worktree.baseRef,
    base_sha: worktree.baseSha,
  });
  run.stage("worktree_ready", worktree.path);
  return worktree;
};

const fetchRepo = async (record: JobRecord, run: Run, repos: Repos): Promise<CachedRepo> => {
  if (record.request.create_repo) {
    const made = await repos.createMissing({
      url: record.repo_url,
      private: record.request.private,
      signal: run.signal,
    });
    if (made !== null) run.warn(made);
  }
  const repo = await repos.fetch({ url: record.repo_url, jobId: record.id, signal: run.signal });
  for (const warning of repo.warnings) run.warn(warning);
  run.stage("fetched", repo.gitDir);
  return repo;
};
