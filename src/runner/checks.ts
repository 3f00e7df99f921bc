import { createHash } from "node:crypto";
import type { AgentLaunch } from "../agents/agent.ts";
import type { CommandEnd, RunCommand } from "../agents/command.ts";
import { type Check, type CheckRun, failsJob, isRed } from "../contract/check.ts";
import type { Run } from "../jobs/run.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { orAborted } from "../lib/wait.ts";
import { type CheckDefinition, checksFile, parseChecksFile } from "../profiles/checks.ts";
import { matchesAny } from "../profiles/match.ts";
import { withoutPorts } from "../place/ports.ts";
import { restoreTimeout } from "../place/setup.ts";
import { ProfileError, type ResolvedProfile } from "../profiles/profile.ts";
import { borrowedBy, type Repos, type Worktree } from "../repos/repos.ts";
import { hiddenOf, type JobSecret, variablesOf } from "../secrets/secrets.ts";
import type { BaseChecks } from "../store/base-checks.ts";

/** What is checked for a job. */
type Checking = {
  jobId: string;
  run: Run;
  worktree: Worktree;
  /** The commit that is checked: the tip of the worktree's branch. */
  tip: string;
  /** Paths that differ from the base. */
  paths: readonly string[];
  definitions: readonly CheckDefinition[];
  launch: Pick<AgentLaunch, "allowed" | "timeoutSeconds" | "env" | "before" | "mounts" | "ports">;
  secrets: readonly JobSecret[];
  /** How often the agent was told of red checks. */
  round: number;
};

type Dependencies = { repos: Repos; runCommand: RunCommand; baseChecks: BaseChecks };

/**
 * The checks of a profile, and those of the repository's `.svc/checks.yml` at the commit that the work began with: what an
 * agent writes there counts for later jobs only. A check of the profile goes before one of the same name.
 * @throws ProfileError
 */
export const checksOf = async (
  { checks, repositoryChecks, readOnly }: Pick<ResolvedProfile, "checks" | "repositoryChecks" | "readOnly">,
  worktree: Worktree,
  { repos, signal }: { repos: Repos; signal: AbortSignal },
): Promise<CheckDefinition[]> => {
  if (readOnly) return [];
  const file = { path: checksFile, maxBytes: 65_536 };
  const source = repositoryChecks ? await repos.fileAtBase(worktree, file, signal) : null;
  if (source === null) return checks;
  try {
    const known = checks.map(({ name }) => name);
    return [...checks, ...parseChecksFile(source).filter(({ name }) => !known.includes(name))];
  } catch (cause) {
    const fault = cause instanceof Error ? cause.message : String(cause);
    throw new ProfileError("profile_invalid", fault, { cause });
  }
};

/**
 * Runs the checks of a job's work one after another, each on the files of the tip, which the worktree has again afterwards.
 * A red one is run on the base, too, among the same ignored files, unless its result there is known.
 */
export const createChecks = ({ repos, runCommand, baseChecks }: Dependencies) => {
  /** Two jobs of this instance do not run one check of one commit at the same time. */
  const mutex = createKeyedMutex();

  const runOne = async (
    { jobId, run, worktree, launch, secrets, round }: Checking,
    { name, run: command, timeout }: CheckDefinition,
    { before, timeLeft }: { before: boolean; timeLeft: number },
  ): Promise<CheckRun> => {
    run.event({ type: "check_start", name, before, run: command, round });
    const { allowed, mounts, ports } = launch;
    const at = { cwd: worktree.path, borrows: borrowedBy(worktree), allowed, mounts, ports };
    const ended = await runCommand({
      jobId,
      ...at,
      run: `${launch.before ?? ""}${command}`,
      env: { ...launch.env, ...variablesOf(secrets) },
      secrets: hiddenOf(secrets),
      timeoutSeconds: Math.max(1, Math.min(timeout, timeLeft)),
      signal: run.signal,
      onOutput: (text) => run.event({ type: "check_output", name, before, text }),
    });
    const found = runOf(ended);
    const { status, exit_code, duration_ms } = found;
    run.event({ type: "check_end", name, before, status, exit_code, duration_ms });
    return found;
  };

  const runOnBase = async (checking: Checking, check: CheckDefinition, timeLeft: number) => {
    const { worktree, tip, run, launch, secrets } = checking;
    const { baseSha: commit, repoKey } = worktree;
    if (commit === null) return null;
    const key = digest([
      repoKey ?? worktree.worktreeId,
      commit,
      check.run,
      check.timeout,
      launch.allowed,
      withoutPorts(launch.env),
      launch.before,
      // When they were set: nothing is made of a value that could be guessed by it.
      secrets.map(({ name, created_at }) => [name, created_at]),
    ]);
    const begun = Promise.withResolvers<void>();
    const running = mutex.runExclusive(key, async () => {
      begun.resolve();
      run.signal.throwIfAborted();
      // A store that is unreachable knows nothing.
      const known = await baseChecks.get(key).catch(() => null);
      if (known !== null) return known;
      try {
        await repos.checkOutCommit(worktree, { commit, tip }, run.signal);
        const found = await runOne(checking, check, { before: true, timeLeft });
        // That the time of this job was over says nothing of the base: it excuses nobody.
        if (found.status === "timed_out" && timeLeft < check.timeout) return null;
        await baseChecks.put(key, found).catch(() => undefined);
        return found;
      } finally {
        const signal = run.signal.aborted ? AbortSignal.timeout(restoreTimeout) : run.signal;
        await repos.checkOutCommit(worktree, { commit: tip, tip, from: commit }, signal);
      }
    });
    running.catch(() => undefined);
    // Who is stopped does not wait until another job's check has ended.
    await orAborted(begun.promise, run.signal);
    return await running;
  };

  const checkOne = async (checking: Checking, check: CheckDefinition, timeLeft: number): Promise<Check> => {
    const { worktree, tip, run } = checking;
    const { name } = check;
    const ran = await runOne(checking, check, { before: false, timeLeft });
    const touched = await repos.checkOutCommit(worktree, { commit: tip, tip }, run.signal);
    const changed = touched.slice(0, 20).join(", ");
    if (touched.length > 0)
      run.warn(`The check ${name} changed files, which are no part of the work: ${changed}`);
    const left = timeLeft - ran.duration_ms / 1000;
    const before = ran.status === "passed" ? null : await runOnBase(checking, check, left);
    return { name, ...ran, status: statusOf(ran, { before, mustPass: check.mustPass }), before };
  };

  return async (checking: Checking): Promise<Check[]> => {
    const { worktree, tip, run, paths, definitions, launch } = checking;
    const began = performance.now();
    const isWanted = ({ when }: CheckDefinition): boolean => when === null || matchesAny(when, paths);
    // What a check left that a stop has interrupted.
    const from = worktree.baseSha ?? undefined;
    if (definitions.some(isWanted))
      await repos.checkOutCommit(worktree, { commit: tip, tip, from }, run.signal);
    const checks: Check[] = [];
    for (const check of definitions) {
      const timeLeft = launch.timeoutSeconds - (performance.now() - began) / 1000;
      checks.push(isWanted(check) ? await checkOne(checking, check, timeLeft) : skipped(check.name));
    }
    return checks;
  };
};

export type RunChecks = ReturnType<typeof createChecks>;

const skipped = (name: string): Check => ({
  name,
  status: "skipped",
  exit_code: null,
  duration_ms: 0,
  log: "",
  before: null,
});

const runOf = ({ exitCode, timedOut, durationMs, log }: CommandEnd): CheckRun => ({
  status: timedOut ? "timed_out" : exitCode === 0 ? "passed" : "failed",
  exit_code: exitCode,
  duration_ms: durationMs,
  log,
});

/** Red before excuses the same check, unless it must pass: the change is not at fault. */
const statusOf = (
  { status }: CheckRun,
  { before, mustPass }: Pick<Check, "before"> & Pick<CheckDefinition, "mustPass">,
): Check["status"] => (status !== "passed" && wasRed({ before }) && !mustPass ? "failed_before" : status);

const wasRed = ({ before }: Pick<Check, "before">): boolean => before !== null && before.status !== "passed";

const digest = (parts: readonly unknown[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex");

/**
 * What becomes of a job whose work was checked.
 *
 * | red checks                           | times that the agent was told | next                                |
 * |--------------------------------------|-------------------------------|-------------------------------------|
 * | none                                 |                               | `deliver`                           |
 * | some                                 | less than `check_rounds`      | `tell`: the agent gets their output |
 * | only such as were red before         | `check_rounds`                | `deliver`: a warning names them     |
 * | one that was not, or that must pass  | `check_rounds`                | `fail`: `checks_failed`             |
 */
export const afterChecks = (
  checks: readonly Check[],
  { round, rounds }: { round: number; rounds: number },
): "deliver" | "tell" | "fail" => {
  if (round < rounds && checks.some(isRed)) return "tell";
  return checks.some(failsJob) ? "fail" : "deliver";
};

/** What the agent is told of red checks: its own programs wrote their output. */
export const redText = (checks: readonly Check[], definitions: readonly CheckDefinition[]): string => {
  const red = checks.filter(isRed).map((check) => {
    const run = definitions.find(({ name }) => name === check.name)?.run ?? "";
    return `The check "${check.name}" ${howItEnded(check)}.${beforeText(check)} Its command:\n${fenced(run)}\nThe end of its output:\n${fenced(check.log)}`;
  });
  return [
    "The service has checked your work, and it is not done yet. Mend the cause, then end your turn with a summary of all your work: the checks are run again.",
    ...red,
  ].join("\n\n");
};

const beforeText = (check: Check): string => {
  if (!wasRed(check)) return "";
  const excused = "If you cannot mend it within your task, leave it, and say why in your summary.";
  return ` It was red before your work, too. ${failsJob(check) ? "It has to pass all the same." : excused}`;
};

export const howItEnded = ({ status, exit_code: code }: Pick<Check, "status" | "exit_code">): string => {
  if (status === "timed_out") return "was ended at its time limit";
  if (code !== null) return `ended with exit code ${code}`;
  return status === "failed_before" ? "was ended, as before the change" : "was ended by a signal";
};

/** With more backticks than the text has in a row: nothing in it ends the block. */
export const fenced = (text: string): string => {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map(({ length }) => length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text.trimEnd()}\n${fence}`;
};

/** Warns of a change to what a check's own command names: the change may be why it is green. */
export const namedByChecks = (definitions: readonly CheckDefinition[], paths: readonly string[]) => {
  const named = definitions.flatMap(({ name, run }) => {
    const words = run.split(/[\s'"`=:;|&()<>$]+/).map((word) => word.replace(/^(\.\/)+/, ""));
    return paths.filter((path) => words.includes(path)).map((path) => `${path} (${name})`);
  });
  return named.length === 0
    ? null
    : `The job changed files that its checks name: ${named.slice(0, 20).join(", ")}`;
};
