import type { TurnOutcome } from "../agents/agent.ts";
import type { Run } from "../jobs/run.ts";
import { pullRequestUnknown } from "../jobs/settle.ts";
import type { Redact } from "../lib/redact.ts";
import type { Deliver } from "../profiles/definition.ts";
import type { ResolvedProfile } from "../profiles/profile.ts";
import type { Repos, Worktree, WorktreeState } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";

type Work = {
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
  diffStat: WorktreeState["diffStat"];
};

/** Reports the changes of a read-only profile's agent, which are discarded with its worktree. */
export const reportDiscarded = async ({ run, worktree, repos }: Work): Promise<null> => {
  const changed = changesIn(await repos.inspect(worktree, run.signal));
  if (changed.length > 0) run.warn(`The profile may only read; changes were discarded: ${some(changed)}`);
  return null;
};

/** Commits what the agent left uncommitted, and saves what it left in the stash or on other branches. */
export const commitWork = async (work: Work): Promise<Committed> => {
  const { record, run, worktree, repos, redact } = work;
  const left = await repos.inspect(worktree, run.signal);
  if (left.kept.length > 0)
    run.warn(`Not in the commit, because git does not take it; its worktree is kept: ${some(left.kept)}`);
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
  const { ahead, diffStat } = left.dirty ? await repos.inspect(worktree, run.signal) : left;
  return { tip, isAhead: ahead > 0, diffStat };
};

type Delivery = Work & {
  work: Committed;
  profile: ResolvedProfile;
  agent: TurnOutcome;
  ended: Pick<JobRecord, "outcome" | "summary">;
};

/** Delivers committed work: pushes the branch and opens a pull request if the profile says so. */
export const deliver = async (delivery: Delivery): Promise<JobPatch> => {
  const { run, worktree, profile, repos, redact, work, ended } = delivery;
  const { tip, diffStat } = work;
  if (!work.isAhead) return { commit_sha: tip, diff_stat: diffStat };
  const patch: JobPatch = { branch: worktree.branch, commit_sha: tip, diff_stat: diffStat };
  // Noted before the push: if the push fails, or the instance is lost after it, the job still says what it did.
  run.note({ ...patch, ...ended });
  if (!profile.auto_pr || worktree.repoUrl === "") {
    await repos.saveBranch(worktree, run.signal);
    return patch;
  }
  await repos.push(worktree, run.signal);
  run.stage("pushed", worktree.branch);
  const asked = repos.openPullRequest({
    worktree,
    title: redact(pullRequestTitle(delivery)),
    body: redact(pullRequestBody(delivery)),
    signal: run.signal,
  });
  const { url, reason } = await asked.catch((error: unknown) => {
    if (!run.signal.aborted || run.signal.reason === "cancel") throw error;
    return { url: null, reason: pullRequestUnknown(worktree.branch) };
  });
  if (reason !== null) run.warn(reason);
  run.note({ pr_url: url });
  if (url !== null) run.stage("pull_request", url);
  return { ...patch, pr_url: url };
};

const changesIn = ({ paths, kept, ahead }: WorktreeState): string[] => {
  if (paths.length > 0 || kept.length > 0 || ahead === 0) return [...paths, ...kept];
  return [ahead === 1 ? "1 commit" : `${ahead} commits`];
};

const some = (paths: string[]): string => {
  const more = paths.length > 50 ? ` and ${paths.length - 50} more` : "";
  return `${paths.slice(0, 50).join(", ")}${more}`;
};

/** The one that was asked for; else the task's first line, at most 72 characters: a title that fits a log and a list of pull requests. */
const pullRequestTitle = (work: Work): string => {
  const { task, options } = work.record;
  const { title } = work.templates;
  if (options.title !== null) return options.title;
  if (title) return cut(oneLine(filled(title, work)), 200) || "Changes by the agent";
  const line =
    task
      .trim()
      .split(/\r?\n/, 1)[0]
      ?.replace(/[\p{Cc}\s]+/gu, " ")
      .trim() ?? "";
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
  const { record, agent, ended, templates } = delivery;
  if (templates.body) return filled(templates.body, delivery);
  const facts = [
    ["Job", record.id],
    ["Outcome", ended.outcome ?? "unknown"],
    ["Profile", record.profile],
    ["Model", agent.model ?? record.model ?? "unknown"],
    ["Cost", agent.costUsd === null ? "unknown" : `$${agent.costUsd.toFixed(4)}`],
    ["Turns", agent.numTurns === null ? "unknown" : String(agent.numTurns)],
  ];
  const quoted = cut(record.task, 4000)
    .split(/\r?\n/)
    .map((line) => `> ${line}`);
  const words = agent.report?.summary ?? agent.text;
  const summary = words === "" ? [] : ["### Summary by the agent", "", cut(words, 8000), ""];
  return [
    "### Task",
    "",
    ...quoted,
    "",
    ...summary,
    "| | |",
    "|---|---|",
    ...facts.map(([name, value]) => `| ${name} | ${value} |`),
    "",
  ].join("\n");
};

const cut = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length)} …`;
