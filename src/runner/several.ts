import type { JobRepository } from "../contract/job-repository.ts";
import type { Run } from "../jobs/run.ts";
import { savedDirOf, type Repos, type Worktree } from "../repos/repos.ts";
import { furtherId, repositoryNames } from "../repos/several.ts";
import type { JobRecord } from "../store/job-record.ts";

/** A further repository of a job: its worktree, as `Place` has the main one. */
export type Other = {
  name: string;
  worktree: Worktree;
  firstHead: string | null;
  /** Notes facts in its entry of the job. */
  note: (patch: Partial<JobRepository>) => void;
};

type Preparing = {
  repos: Repos;
  /** The main worktree of the job. */
  own: Worktree;
  /** Gives its agent a copy of a worktree, under that id; null: it works in the worktree itself. */
  copy: ((worktreeId: string, worktree: Worktree) => Promise<Worktree>) | null;
  /** Whether the main worktree is the job's own. */
  isNew: boolean;
};

/** Makes the worktrees of the further repositories beside the main one, each on a branch of the same name. */
export const prepareOthers = async (record: JobRecord, run: Run, preparing: Preparing): Promise<Other[]> => {
  const { repos, own, copy, isNew } = preparing;
  const { signal } = run;
  const names = namesOf(record).slice(1);
  const entries: JobRepository[] = record.repositories.map((entry) => ({ ...entry, error: null }));
  const others: Other[] = [];
  for (const [at, { repo_url: url, base_ref: baseRef }] of record.repositories.entries()) {
    const name = names[at] ?? "";
    const note: Other["note"] = (patch) => {
      for (const entry of entries.slice(at, at + 1)) Object.assign(entry, patch);
      run.note({ repositories: structuredClone(entries) }, { lazy: false });
    };
    const made = await checkout(record, run, { repos, own, url, baseRef, name });
    const worktree = copy === null ? made : await copy(furtherId(record.id, name), made);
    const countsAll = isNew || record.options.deliver_only === true;
    const firstHead = countsAll ? made.baseSha : (await repos.inspect(made, signal)).head;
    const { path, branch } = worktree;
    const cached_clone = savedDirOf(made.cacheDir);
    note({ path, branch, base_ref: made.baseRef, base_sha: made.baseSha, cached_clone });
    others.push({ name, worktree, firstHead, note });
  }
  return others;
};

/** Of all repositories of a job, the main one first. */
const namesOf = ({ repo_url, repositories }: JobRecord): string[] =>
  repositoryNames([repo_url, ...repositories.map((each) => each.repo_url)]);

type Checkout = Pick<Preparing, "repos" | "own"> & { url: string; baseRef: string; name: string };

/** That in which the job was parked is used as it is. */
const checkout = async (
  record: JobRecord,
  { signal, warn }: Run,
  { repos, own, url, baseRef, name }: Checkout,
): Promise<Worktree> => {
  const worktreeId = furtherId(own.worktreeId, name);
  const parked = record.resumed_at === null ? null : await repos.findWorktree(worktreeId);
  if (parked !== null) return parked;
  const repo = await repos.fetch({ url, jobId: record.id, signal });
  const worktree = await repos.addWorktree({
    repo,
    worktreeId,
    jobId: record.id,
    branch: own.branch,
    mustBeNew: record.branch === null && record.options.branch !== null,
    baseRef,
    wanted: { submodules: false, lfs: false, limits: own.limits },
    signal,
  });
  for (const warning of [...repo.warnings, ...worktree.warnings]) warn(`${name}: ${warning}`);
  return worktree;
};

/** The agent's variable that names all repositories of a job with several; else none. */
export const repositoriesVariable = (record: JobRecord, main: Worktree, others: readonly Other[]) => {
  if (others.length === 0) return {};
  const paths = [main, ...others.map((other) => other.worktree)].map(({ path }) => path);
  const entries = namesOf(record).map((name, at) => [name, paths[at]]);
  return { SERVICE_REPOSITORIES: JSON.stringify(Object.fromEntries(entries)) };
};

/** What an agent is told of them. */
export const othersText = (others: readonly Other[]): string[] =>
  others.length === 0
    ? []
    : [
        `The task has further repositories, which you may change, too (SERVICE_REPOSITORIES names all). Each has a branch of its own:\n${others.map(({ name, worktree }) => `- ${name}: ${worktree.path}`).join("\n")}`,
      ];
