import type { Run } from "../jobs/run.ts";
import type { CachedRepo, Repos, Worktree } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";

/** Makes the job's worktree: creates the repository if asked, fetches the cache, adds the worktree. */
export const checkout = async (record: JobRecord, run: Run, repos: Repos): Promise<Worktree> => {
  const repo = record.repo_url === "" ? null : await fetchRepo(record, run, repos);
  const worktreeId = record.worktree_id ?? record.id;
  const worktree = await repos.addWorktree({
    repo,
    worktreeId,
    jobId: record.id,
    branch: record.branch ?? `service/${record.id.slice(0, 8)}`,
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
