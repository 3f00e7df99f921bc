import type { Agent } from "../agents/agent.ts";
import type { Execute, Outcome, Run } from "../jobs/run.ts";
import { needsInput } from "../jobs/answer.ts";
import { type Check, stillRed } from "../contract/check.ts";
import type { CheckDefinition } from "../profiles/checks.ts";
import type { Log } from "../lib/log.ts";
import type { Redact } from "../lib/redact.ts";
import { borrowedBy } from "../repos/repos.ts";
import { hiddenOf, variablesOf } from "../secrets/secrets.ts";
import type { JobRecord, StoredMessage } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";
import {
  type Committed,
  commitWork,
  deliver,
  deliverRed,
  type Delivery,
  reportDiscarded,
  type Work,
} from "./deliver.ts";
import { afterChecks, namedByChecks, redText, type RunChecks } from "./checks.ts";
import { agentFacts, runUntilOver, type Again } from "./again.ts";
import type { Try } from "./limit.ts";
import {
  endedRed,
  failedRun,
  failureOf,
  interrupted,
  type Progress,
  refusedPlan,
  setUp,
  unansweredRun,
} from "./ends.ts";
import { createReadying, type Given, type Readying } from "./given.ts";
import { createSecretCare } from "./secrets.ts";
import { createSaving, type Saving } from "./saving.ts";
import {
  commitOthers,
  deliverOthers,
  diffStatOf,
  hasChanged,
  linkPullRequests,
  undelivered,
} from "./deliver-several.ts";
import { repositoriesVariable } from "./several.ts";
import { judge, summaryOf } from "./outcome.ts";
import { afterAsking, isApproved, leftOf } from "./asking.ts";
import { unheard } from "./messages.ts";
import { type JobTurnOutcome, LostOwnership, runJobAgent } from "./turn.ts";

type Dependencies = Readying & {
  agent: Agent;
  checks: RunChecks;
  newId: () => string;
  /** Whether a job has a session of this id. */
  isTaken: (sessionId: string) => Promise<boolean>;
  /** For texts that leave the service with a pull request. */
  redact: Redact;
  log: Log;
  /** What the sandbox of agents does not hold here, or why there is none although nobody asked for that; null: neither. */
  sandboxWarning: string | null;
  settings: { questionTtl: number };
} & Again &
  Saving;

/** Runs one job: profile → checkout → agent → outcome → commit, push, pull request; or salvage. */
export const createRunner = (deps: Dependencies) => {
  const { profiles, repos, log } = deps;
  const service = { agent: deps.agent, profiles, newId: deps.newId, isTaken: deps.isTaken, log };
  const care = createSecretCare(deps);
  const { portsFor, placeOf, launchOf } = createReadying(deps, care);
  const { discard, keepFiles, saveWork, settleLost } = createSaving(deps);

  const execute: Execute = async (record, run) => {
    const progress: Progress = {
      worktree: null,
      isThrowaway: false,
      agent: null,
      facts: {},
      checking: record.checking,
    };
    try {
      const outcome = await attempt(record, run, progress);
      await discard(record, progress);
      return outcome;
    } catch (error) {
      const failure = run.signal.aborted
        ? interrupted(run.signal, record, progress)
        : failureOf(error, record, progress);
      if (failure.kind !== "failed" || failure.patch.failure_reason === "internal") {
        log.warn({ err: error, job: record.id }, "the run of the job ended early");
      }
      return await endWith(record, run, progress, failure);
    }
  };

  const attempt = async (record: JobRecord, run: Run, progress: Progress): Promise<Outcome> => {
    if (deps.sandboxWarning !== null) run.warn(deps.sandboxWarning);
    if (record.asked?.answer?.kind === "refuse") return refusedPlan;
    await using ports = await portsFor(run);
    const { setup, given } = await placeOf(record, run, progress, ports);
    if (record.options.setup_only === true) return setUp(setup);
    let next = begun(record, given.definitions);
    for (;;) {
      const worked = next.job.checking === null ? await work(next, given) : next;
      if ("outcome" in worked) return worked.outcome;
      const concluded = await conclude(worked.job, given);
      if ("outcome" in concluded) return concluded.outcome;
      next = concluded;
    }
  };

  /** A turn of the agent. The job with what came of it; or how it ends, when there is nothing to deliver. */
  const work = async (next: Next, given: Given): Promise<{ outcome: Outcome } | { job: JobRecord }> => {
    const { run, profile, definitions, progress } = given;
    const { job } = next;
    const { agent, then } = await runUntilOver(deps, {
      record: job,
      run,
      onLimit: profile.onLimit,
      progress,
      secondsLeft: () => leftOf(job, profile.limits, run.workedMs()).timeout_seconds ?? Infinity,
      start: (record, tried) => runProcess({ ...next, job: record }, tried, given),
    });
    const facts = agentFacts(job, agent);
    progress.facts = facts;
    if (agent.prompted) progress.checking = null;
    const asked = afterAsking({ ...agent, questions: profile.questions, stopped: run.signal });
    if (asked === "park") return { outcome: await parked(job, run, progress, agent) };
    if (asked === "refuse") return { outcome: await endWith(job, run, progress, refusedPlan) };
    if (asked === "fail")
      return { outcome: await endWith(job, run, progress, unansweredRun(job, agent.asking)) };
    run.signal.throwIfAborted();
    if (then.kind === "park") {
      run.event({ type: "rate_limit", status: "waits", resets_at: then.patch.waiting?.until ?? null });
      return { outcome: await parked(job, run, progress, agent, then.patch) };
    }
    if (!agent.ok) return { outcome: await endWith(job, run, progress, failedRun(agent, run)) };
    const plan_approved = isApproved(job) || agent.asking.answer?.kind === "approve";
    const checking = { report: agent.report, tell: false };
    const ended = { ...job, ...facts, plan_approved, asked: null, checking };
    // A push cannot be undone: a job that another instance owns by now must not be delivered here.
    const isOwner =
      definitions.length > 0 ? await run.record({ ...facts, asked: null, checking }) : await run.isOwner();
    if (!isOwner) throw new LostOwnership("another run owns the job");
    if (definitions.length > 0) progress.checking = checking;
    else run.note(facts);
    return { job: ended };
  };

  /** Each process has a launch of its own: an agent can change what the one before was given. */
  const runProcess = async ({ job: record, said, begins }: Next, tried: Try, given: Given) => {
    const { run, profile, place, files } = given;
    const { own, worktree, others } = place;
    const turn = {
      said,
      files,
      begins,
      run,
      worktree: own,
      directory: worktree.path,
      borrows: [worktree, ...others.map((other) => other.worktree)].flatMap(borrowedBy),
      others,
      readOnly: profile.readOnly,
      ...service,
      questions: profile.questions,
      plan: record.options.plan ?? profile.plan,
      questionTtl: deps.settings.questionTtl,
      now: deps.now,
      goesOn: hasBegun({ job: record, said, begins }, tried),
      usesKey: tried.usesKey,
    };
    const { agent: secrets } = given.secrets;
    const launch = { ...(await launchOf(record, given)), ...given.forAgent, secrets: hiddenOf(secrets) };
    const env = { ...launch.env, ...variablesOf(secrets), ...repositoriesVariable(record, worktree, others) };
    return await runJobAgent({ ...turn, record, launch: { ...launch, env } });
  };

  /** Commits, judges and delivers the work of an agent that finished well. */
  const conclude = async (record: JobRecord, given: Given): Promise<{ outcome: Outcome } | Next> => {
    const { run, profile, place } = given;
    const { worktree, firstHead } = place;
    const agent = { report: record.checking?.report ?? null, text: record.output ?? "" };
    const summary = summaryOf(agent);
    const about = { record, run, worktree, summary, repos, templates: profile.deliver, redact: deps.redact };
    const all = [worktree, ...place.others.map((other) => other.worktree)];
    const work = profile.readOnly ? await reportDiscarded(about, all) : await commitWork(about, firstHead);
    const left = work === null ? [] : await commitOthers(about, place.others);
    const changed = work !== null && (work.isChanged || left.some(hasChanged));
    const checks = changed ? await runChecks(record, work, given) : [];
    const rounds = record.options.deliver_only === true ? 0 : profile.checkRounds;
    const after = afterChecks(checks, { round: record.check_round, rounds });
    if (after === "tell") return await told(record, checks, given);
    // What was said in the meantime is heard before anything is delivered.
    const [begins] = await unheard(run);
    if (begins !== undefined) return { job: { ...record, checks, checking: null }, said: null, begins };
    return { outcome: await end(record, { about, work, left, agent, checks, changed }, given) };
  };

  /** What becomes of a job of whose work no more is to come. */
  const end = async (
    record: JobRecord,
    { about, work, left, agent, checks, changed }: Concluded,
    given: Given,
  ): Promise<Outcome> => {
    const { run, profile, place, definitions, progress } = given;
    const { outcome, question } = judge({ ...agent, changed, checks, readOnly: profile.readOnly });
    const isRed = outcome === "checks_failed";
    const ended = { outcome, summary: about.summary, checks };
    if (outcome === "question") {
      const why = needsInput(record.id, `The agent ended with a question: ${question}`);
      return await endWith(record, run, progress, { kind: "failed", patch: { ...ended, ...why } });
    }
    const asks = question === null ? null : `The agent asks: ${question}`;
    const named = changed && work !== null ? namedByChecks(definitions, work.paths) : null;
    warnOf([asks, named, stillRed(checks)], record, run);
    // Noted, for a push cannot be undone: the job has them also if it is settled after it.
    if (!isRed) run.note(await keepFiles(record, place.worktree, run.warn));
    const facts = { ...progress.facts, ...ended };
    if (work === null) return { kind: "succeeded", patch: { ...facts, branch: null } };
    const search = ({ worktree }: Work, { isAhead, tip }: Committed): Promise<void> =>
      isAhead && tip !== null ? care.requireNonePushed(given, worktree, tip) : Promise.resolve();
    await search(about, work);
    const all = { ...work, diffStat: diffStatOf(work, left) };
    const delivery = { ...about, work: all, profile, agent, ended, checks };
    // First: that the main one was pushed says that the job has succeeded.
    const delivered = await deliverOthers(delivery, left, search);
    const main = await (isRed ? deliverRed(delivery) : deliver(delivery));
    await linkPullRequests(about, [{ worktree: about.worktree, url: main.pr_url ?? null }, ...delivered]);
    const failed = undelivered(delivered, record.id);
    if (!isRed && failed === null) return { kind: "succeeded", patch: { ...facts, ...main } };
    const patch = { ...ended, ...main, ...(isRed ? endedRed(record, checks) : failed) };
    return await endWith(record, run, progress, { kind: "failed", patch });
  };

  const runChecks = async (record: JobRecord, { tip, paths }: Committed, given: Given): Promise<Check[]> => {
    const { run, place, definitions } = given;
    if (definitions.length === 0 || tip === null) return [];
    // Where it is, should the service end in the middle.
    run.note({ commit_sha: tip }, { lazy: false });
    run.stage("checks");
    const checking = {
      jobId: record.id,
      run,
      worktree: place.worktree,
      tip,
      paths,
      definitions,
      launch: await launchOf(record, given),
      secrets: given.secrets.checks,
      round: record.check_round,
    };
    try {
      return await care.afterChecks(given, () => deps.checks(checking));
    } finally {
      // Also when they are stopped: what they leave is nobody's work.
      await repos.markAgentWork(place.worktree);
    }
  };

  /** Its agent gets another turn. From here on the round counts. */
  const told = async (record: JobRecord, checks: Check[], { run, definitions, progress }: Given) => {
    const checking = { report: null, tell: true };
    const patch = { checks, check_round: record.check_round + 1, checking };
    if (!(await run.record(patch))) throw new LostOwnership("another run owns the job");
    progress.checking = checking;
    return begun({ ...record, ...patch }, definitions);
  };

  /** Its work is saved now: a cancelled or unanswered job has no run that does it. */
  const parked = async (
    record: JobRecord,
    run: Run,
    progress: Progress,
    agent: JobTurnOutcome,
    patch: JobPatch = {},
  ): Promise<Outcome> => {
    const saved = progress.isThrowaway ? {} : await saveWork(record, progress, run.warn);
    const facts = { ...agentFacts(record, agent), ...saved, ...patch };
    return { kind: "parked", patch: facts };
  };

  /** Saves what is in the worktree, then reports how the run ended. */
  const endWith = async (record: JobRecord, run: Run, progress: Progress, outcome: Outcome) => {
    const saved = await saveWork(record, progress, run.warn);
    return { ...outcome, patch: { ...progress.facts, ...outcome.patch, ...saved } };
  };

  return {
    execute,
    settleLost,
    removeConfig: async ({ id, options }: JobRecord): Promise<void> => {
      await profiles.discard(id);
      if (options.files.length > 0) await deps.taskFiles.remove(id);
      await deps.keptFiles.remove(id);
    },
  };
};

/** Warns of what is in doubt. A run that was stopped while it delivered has warned before. */
const warnOf = (doubts: readonly (string | null)[], { warnings }: JobRecord, run: Run): void => {
  for (const doubt of doubts) if (doubt !== null && !warnings.includes(doubt)) run.warn(doubt);
};

/** What an agent has left and said, and how its checks went. */
type Concluded = Pick<Delivery, "agent" | "checks"> & {
  about: Work;
  /** Null: it may only read. */
  work: Committed | null;
  /** In its further repositories. */
  left: Awaited<ReturnType<typeof commitOthers>>;
  changed: boolean;
};

/** The job, and what its agent is told next: its task if both are null. */
type Next = { job: JobRecord; said: string | null; begins: StoredMessage | null };

/** Whether the turn was begun by an earlier process, which a limit or an overload has ended. */
const hasBegun = ({ job, said, begins }: Next, { overloads, usesKey }: Try): boolean =>
  overloads > 0 || usesKey || (said === null && begins === null && (job.limit?.waits ?? 0) > 0);

/** With red checks to tell, its agent has another turn. */
const begun = (job: JobRecord, definitions: readonly CheckDefinition[]): Next =>
  job.checking?.tell === true
    ? { job: { ...job, checking: null }, said: redText(job.checks, definitions), begins: null }
    : { job, said: null, begins: null };
