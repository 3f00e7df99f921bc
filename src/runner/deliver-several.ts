import { failsJob } from "../contract/check.ts";
import type { Run } from "../jobs/run.ts";
import type { Worktree } from "../repos/repos.ts";
import type { JobPatch } from "../store/job-store.ts";
import { type Committed, commitWork, deliver, deliverRed, type Delivery, type Work } from "./deliver.ts";
import { message, withDelivery } from "./ends.ts";
import type { Other } from "./several.ts";

/** A further repository with what the agent has left there; `error`: why that could not be committed. */
type Left = { other: Other; about: Work } & (
  | { work: Committed; error: null }
  | { work: null; error: string }
);

export const commitOthers = async (about: Work, others: readonly Other[]): Promise<Left[]> => {
  const left: Left[] = [];
  for (const other of others) {
    const own = { ...about, worktree: other.worktree, run: runOf(other, about.run) };
    try {
      left.push({ other, about: own, work: await commitWork(own, other.firstHead), error: null });
    } catch (error) {
      about.run.signal.throwIfAborted();
      left.push({ other, about: own, work: null, error: message(error) });
    }
  }
  return left;
};

/** What could not be read may have changed. */
export const hasChanged = ({ work }: Left): boolean => work?.isChanged !== false;

/** What all of them change. */
export const diffStatOf = (main: Committed, left: readonly Left[]): Committed["diffStat"] =>
  left.reduce(
    (sum, { work }) => ({
      files: sum.files + (work?.diffStat.files ?? 0),
      insertions: sum.insertions + (work?.diffStat.insertions ?? 0),
      deletions: sum.deletions + (work?.diffStat.deletions ?? 0),
    }),
    main.diffStat,
  );

/** Steps and results of a further repository are none of the job's own, and its warnings name it. */
const runOf = ({ name, note }: Other, run: Run): Run => ({
  ...run,
  warn: (text) => run.warn(`${name}: ${text}`),
  stage: (stage) => stage === "pushed" && note({ cached_clone: null }),
  note: ({ branch, commit_sha, pr_url }: JobPatch) =>
    note({
      ...(branch !== undefined && { branch }),
      ...(commit_sha !== undefined && { commit_sha }),
      ...(pr_url !== undefined && { pr_url }),
    }),
});

/** Where a pull request is, and why a repository could not be delivered. */
export type Delivered = { worktree: Worktree; url: string | null; error: string | null };

/** Delivers each as the main one is delivered. One that cannot be says why and keeps none of the others. `search` rejects when its work must not go out. */
export const deliverOthers = async (
  delivery: Delivery,
  left: readonly Left[],
  search: (about: Work, work: Committed) => Promise<void>,
): Promise<Delivered[]> => {
  const delivered: Delivered[] = [];
  for (const { other, about, work, error: uncommitted } of left) {
    const { note, worktree } = other;
    try {
      if (work === null) throw new Error(uncommitted);
      await search(about, work);
      const own = { ...delivery, ...about, work };
      const { commit_sha = null, pr_url = null } = await (delivery.checks.some(failsJob)
        ? deliverRed(own)
        : deliver(own));
      note({ commit_sha, pr_url });
      delivered.push({ worktree, url: pr_url, error: null });
    } catch (error) {
      delivery.run.signal.throwIfAborted();
      // The other base of a follow-up is one of the main repository.
      const text = message(error).replace(/Name a branch that is there(.*) --base BRANCH/, "Make it again$1");
      note({ error: text });
      delivered.push({ worktree, url: null, error: text });
    }
  }
  return delivered;
};

/** Links the pull requests of a job with each other. That it fails is a warning. */
export const linkPullRequests = async (
  { run, repos }: Work,
  all: readonly Pick<Delivered, "worktree" | "url">[],
): Promise<void> => {
  const opened = all.flatMap(({ worktree, url }) => (url === null ? [] : [{ worktree, url }]));
  for (const { worktree, url } of opened) {
    const others = opened.filter((other) => other.url !== url).map((other) => `- ${other.url}`);
    if (others.length === 0) return;
    const text = `### Belongs together with\n\n${others.join("\n")}\n`;
    await repos.addToBody({ worktree, url, text, signal: run.signal }).catch((error: unknown) => {
      run.signal.throwIfAborted();
      run.warn(`The pull requests could not be linked: ${message(error)}`);
    });
  }
};

/** How a job fails of which a further repository is undelivered; null: none is. */
export const undelivered = (delivered: readonly Delivered[], jobId: string): JobPatch | null => {
  const errors = delivered.flatMap(({ worktree, error }) =>
    error === null ? [] : [`${worktree.repoUrl}: ${error}`],
  );
  if (errors.length === 0) return null;
  const text = `The work on further repositories could not be delivered.\n${errors.join("\n")}`;
  return { failure_reason: "push_failed", retryable: true, error: withDelivery(text, jobId) };
};
