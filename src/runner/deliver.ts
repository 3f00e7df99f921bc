import type { TurnOutcome } from "../agents/agent.ts";
import { type Check, failsJob, isRed, stillRed } from "../contract/check.ts";
import type { Run } from "../jobs/run.ts";
import { pullRequestUnknown } from "../jobs/settle.ts";
import type { Redact } from "../lib/redact.ts";
import { some } from "../lib/some.ts";
import type { Deliver } from "../profiles/definition.ts";
import type { ResolvedProfile } from "../profiles/profile.ts";
import type { Repos, Worktree, WorktreeState } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";
import { fenced } from "./checks.ts";
import { message } from "./ends.ts";

export type Work = {
  record: JobRecord;
  /** What the agent says it did. */
  summary: string | null;
  /** Templates of the profile. */
  templates: Deliver;
  run: Run;
  worktree: Worktree;
  repos: Repos;
  redact: Redact;
};

/** What the agent has left on the branch. */
export type Committed = {
  /** The branch's last commit; null: it has none. */
  tip: string | null;
  /** Whether it has commits beyond its base. */
  isAhead: boolean;
  /** Whether there is something to deliver that was not there when the job began. */
  isChanged: boolean;
  diffStat: WorktreeState["diffStat"];
  /** Paths that differ from the base. */
  paths: string[];
};

/** Reports the changes of a read-only profile's agent, which are discarded with its worktrees. */
export const reportDiscarded = async ({ run, repos }: Work, worktrees: Worktree[]): Promise<null> => {
  const changed: string[] = [];
  for (const worktree of worktrees) {
    changed.push(...changesIn(await repos.inspect(worktree, run.signal)));
    changed.push(...(await repos.ignoredWork(worktree, run.signal)));
  }
  if (changed.length > 0) run.warn(`The profile may only read; changes were discarded: ${some(changed, 50)}`);
  return null;
};

/** Commits what the agent left uncommitted, saves its stash and other branches. `firstHead`: of the start. */
export const commitWork = async (work: Work, firstHead: string | null): Promise<Committed> => {
  const { record, run, worktree, repos, redact } = work;
  const left = await repos.inspect(worktree, run.signal);
  if (left.kept.length > 0)
    run.warn(`Not in the commit, because git does not take it; its worktree is kept: ${some(left.kept, 50)}`);
  await warnOfIgnored({ repos, worktree, signal: run.signal }, run.warn);
  if (left.hasOtherCommits) {
    const { ref } = await repos.salvage(worktree, record.id, run.signal);
    if (ref !== null) {
      run.note({ salvage_ref: ref });
      run.warn(`What the agent left in the stash or on other branches is saved as ${ref}`);
    }
  }
  const tip = left.dirty
    ? await repos.commitAll(worktree, redact(commitMessage(work)), run.signal)
    : left.head;
  const { ahead, diffStat, paths } = left.dirty ? await repos.inspect(worktree, run.signal) : left;
  const isMoved = tip !== firstHead;
  if (isMoved && ahead === 0) run.warn(movedBack(worktree));
  return { tip, isAhead: ahead > 0, isChanged: isMoved && ahead > 0, diffStat, paths };
};

const movedBack = ({ branch, baseRef }: Worktree): string =>
  `The branch ${branch} was moved back and has no commit beyond its base ${baseRef}, so there is nothing to deliver: to undo commits, have them reverted (git revert)`;

/** Names the agent's work that git ignores: no commit has it. */
export const warnOfIgnored = async (
  { repos, worktree, signal }: { repos: Repos; worktree: Worktree; signal: AbortSignal },
  warn: (message: string) => void,
): Promise<void> => {
  const ignored = await repos.ignoredWork(worktree, signal);
  if (ignored.length === 0) return;
  const count = ignored.length === 1 ? "1 new file" : `${ignored.length} new files`;
  warn(
    `In no commit, because .gitignore or the agent's .git/info/exclude names it: ${count}, only in ${worktree.path}: ${some(ignored)}`,
  );
};

export type Delivery = Work & {
  work: Committed;
  profile: ResolvedProfile;
  agent: Pick<TurnOutcome, "report" | "text">;
  checks: Check[];
  ended: Pick<JobRecord, "outcome" | "summary">;
};

/** Delivers committed work: pushes the branch and opens a pull request if the profile says so. */
export const deliver = async (delivery: Delivery): Promise<JobPatch> => {
  const { run, worktree, profile, repos, work, ended } = delivery;
  const { tip, diffStat } = work;
  if (!work.isAhead) return { commit_sha: tip, diff_stat: diffStat };
  const patch: JobPatch = { branch: worktree.branch, commit_sha: tip, diff_stat: diffStat };
  // Noted before the push: if the push fails, or the instance is lost after it, the job still says what it did.
  run.note({ ...patch, ...ended });
  if (!profile.auto_pr || worktree.repoUrl === "") {
    await repos.saveBranch(worktree, run.signal);
    return patch;
  }
  if (!(await push(delivery))) return patch;
  run.stage("pushed", worktree.branch);
  const { url, reason } = await openPullRequest(delivery, { isDraft: false }).catch((error: unknown) => {
    if (!run.signal.aborted || run.signal.reason === "cancel") throw error;
    return { url: null, reason: pullRequestUnknown(worktree.branch) };
  });
  if (reason !== null) run.warn(reason);
  run.note({ pr_url: url });
  if (url !== null) run.stage("pull_request", url);
  return { ...patch, pr_url: url };
};

/** Pushes the branch. False: its work is saved here in place of that. */
const push = async ({ run, worktree, repos }: Work): Promise<boolean> => {
  const { isPushed, warnings } = await repos.push(worktree, run.signal);
  for (const warning of warnings) run.warn(warning);
  return isPushed;
};

const openPullRequest = (delivery: Delivery, { isDraft }: { isDraft: boolean }) => {
  const { run, worktree, repos, redact } = delivery;
  const [title, body] = [redact(pullRequestTitle(delivery)), redact(pullRequestBody(delivery))];
  return repos.openPullRequest({ worktree, isDraft, title, body, signal: run.signal });
};

/** Delivers work whose checks stay red, as far as the profile says so, and never as ready. That it fails is a warning. */
export const deliverRed = async (delivery: Delivery): Promise<JobPatch> => {
  const { run, worktree, profile, work } = delivery;
  const patch: JobPatch = { branch: worktree.branch, commit_sha: work.tip, diff_stat: work.diffStat };
  if (profile.onRed === "none" || worktree.repoUrl === "" || !work.isAhead) return patch;
  try {
    if (!(await push(delivery))) return patch;
    // Before the stage: the checks say that the job has not succeeded by it.
    run.note({ checks: delivery.checks });
    run.stage("pushed", worktree.branch);
    if (profile.onRed === "push") return patch;
    const { url, reason } = await openPullRequest(delivery, { isDraft: true });
    if (reason !== null) run.warn(reason);
    if (url !== null) run.stage("pull_request", url);
    return { ...patch, pr_url: url };
  } catch (error) {
    run.signal.throwIfAborted();
    run.warn(`on_red: ${profile.onRed} of the profile failed: ${message(error)}`);
    return patch;
  }
};

const changesIn = ({ paths, kept, ahead }: WorktreeState): string[] => {
  if (paths.length > 0 || kept.length > 0 || ahead === 0) return [...paths, ...kept];
  return [ahead === 1 ? "1 commit" : `${ahead} commits`];
};

/** The one that was asked for; else the task's first line, at most 72 characters: a title that fits a log and a list of pull requests. */
const pullRequestTitle = (work: Work): string => {
  const { task, options } = work.record;
  const { title } = work.templates;
  if (options.title !== null) return options.title;
  if (title) return cut(oneLine(filled(title, work)), 200) || "Changes by the agent";
  const line = oneLine(task.trim().split(/\r?\n/, 1)[0] ?? "");
  const characters = Array.from(line);
  return characters.length <= 72 ? line || "Changes by the agent" : `${characters.slice(0, 71).join("")}…`;
};

/** Message of the commit of what the agent left uncommitted. */
const commitMessage = (work: Work): string => {
  const { commit_message: template } = work.templates;
  const text = template
    ? filled(template, work).trim()
    : `${pullRequestTitle(work)}\n\nCommitted by the service: the agent left these changes uncommitted.`;
  return `${text}\n\nService-Job: ${work.record.id}\n`;
};

/** A template with its placeholders replaced, in one pass: what stands for one may hold braces. */
const filled = (template: string, { record, worktree, summary }: Work): string => {
  const values: Record<string, string> = {
    task: cut(record.task.trim(), 4000),
    job_id: record.id,
    summary: summary ?? "",
    branch: worktree.branch,
    profile: record.profile,
  };
  return template.replace(/\{([a-z_]+)\}/g, (whole, name: string) => values[name] ?? whole);
};

const oneLine = (text: string): string => text.replace(/[\p{Cc}\s]+/gu, " ").trim();

/** Says first what a reviewer wants to know: where this comes from and what it cost. */
const pullRequestBody = (delivery: Delivery): string => {
  const { record, agent, ended, templates, checks } = delivery;
  const still = stillRed(checks);
  const doubts = [
    ...(checks.some(failsJob) ? ["> Not ready for review: checks are red, see the end."] : []),
    ...(still === null ? [] : [`> ${still}: see the end.`]),
  ];
  const warning = doubts.length === 0 ? [] : ["> [!WARNING]", ...doubts, ""];
  if (templates.body)
    return [...warning, filled(templates.body, delivery), "", ...checkLines(checks)].join("\n");
  const facts = [
    ["Job", record.id],
    ["Outcome", ended.outcome ?? "unknown"],
    ["Profile", record.profile],
    ["Model", record.model ?? "unknown"],
    ["Cost", record.cost_usd === null ? "unknown" : `$${record.cost_usd.toFixed(4)}`],
    ["Turns", record.num_turns === null ? "unknown" : String(record.num_turns)],
  ];
  const quoted = cut(record.task, 4000)
    .split(/\r?\n/)
    .map((line) => `> ${line}`);
  const words = agent.report?.summary ?? agent.text;
  const summary = words === "" ? [] : ["### Summary by the agent", "", cut(words, 8000), ""];
  return [
    ...warning,
    "### Task",
    "",
    ...quoted,
    "",
    ...summary,
    "| | |",
    "|---|---|",
    ...facts.map(([name, value]) => `| ${name} | ${value} |`),
    "",
    ...checkLines(checks),
  ].join("\n");
};

/** What a reviewer has to know of each: a red one with the end of its output. */
const checkLines = (checks: readonly Check[]): string[] => {
  if (checks.length === 0) return [];
  const lines = checks.map(
    ({ name, status }) =>
      `- ${name}: ${status === "failed_before" ? "failed, as before the change" : status.replace("_", " ")}`,
  );
  const outputs = checks.filter(isRed).flatMap(({ name, log }) => ["", `#### ${name}`, "", fenced(log)]);
  return ["### Checks", "", ...lines, ...outputs, ""];
};

const cut = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length)} …`;
