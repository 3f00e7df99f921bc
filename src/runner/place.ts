import type { Run } from "../jobs/run.ts";
import type { ResolvedProfile } from "../profiles/profile.ts";
import { mainId } from "../repos/several.ts";
import { savedDirOf, type CachedRepo, type Repos, type Wanted, type Worktree } from "../repos/repos.ts";
import { prepareOthers, type Other } from "./several.ts";
import type { JobRecord } from "../store/job-record.ts";

/** `firstHead`: the commit that was checked out when the job's first agent started. */
export type Place = { own: Worktree; worktree: Worktree; firstHead: string | null; others: Other[] };

/** The worktree in which the agent works: `own` is the job's, which a read-only agent gets a copy of. */
export const prepare = async (
  record: JobRecord,
  run: Run,
  preparing: { profile: ResolvedProfile; repos: Repos; onMade: (worktree: Worktree) => void },
): Promise<Place> => {
  const { profile, repos, onMade } = preparing;
  const wanted = wantedOf(record, profile);
  const own = (await parkedWorktree(record, repos)) ?? (await checkout(record, run, { repos, wanted }));
  const isNew = !isOlder(record);
  const isCopy = profile.readOnly && !isNew;
  const copy = (id: string, worktree: Worktree) =>
    copyOf(id, worktree, { repos, wanted, signal: run.signal });
  const worktree = isCopy ? await copy(record.id, own) : own;
  onMade(worktree);
  const firstHead = await firstHeadOf(record, own, { repos, run });
  const tryPush = async (pushed: Worktree, name = ""): Promise<void> => {
    if (!profile.auto_pr || profile.readOnly || pushed.repoUrl === "") return;
    const whySaved = await repos.tryPush(pushed, run.signal);
    if (whySaved !== null) run.warn(`${name}${whySaved}`);
  };
  // What the remote refuses anyway need not be paid for first.
  await tryPush(worktree);
  const others = await prepareOthers(record, run, { repos, own, copy: isCopy ? copy : null, isNew });
  for (const other of others) await tryPush(other.worktree, `${other.name}: `);
  return { own, worktree, firstHead, others };
};

const wantedOf = ({ options }: JobRecord, { wanted }: ResolvedProfile): Wanted => ({
  submodules: options.submodules ?? wanted.submodules,
  lfs: options.lfs ?? wanted.lfs,
  limits: wanted.limits,
});

/** Whether the job's worktree existed before the job (prepared, or of a resumed session); the job's own one has its id. */
const isOlder = ({ id, worktree_id }: JobRecord): boolean => worktree_id !== null && worktree_id !== id;

/** That in which the job was parked; null: there is none, or the job was not. */
const parkedWorktree = async (record: JobRecord, repos: Repos): Promise<Worktree | null> =>
  record.resumed_at === null ? null : repos.findWorktree(record.worktree_id ?? record.id);

/** Later attempts count what the first one did, and a job that only delivers counts all. */
const firstHeadOf = async (
  record: JobRecord,
  worktree: Worktree,
  { repos, run }: { repos: Repos; run: Run },
): Promise<string | null> => {
  const isBegun = isOlder(record) && record.options.deliver_only !== true;
  const head = isBegun ? (await repos.inspect(worktree, run.signal)).head : worktree.baseSha;
  const first = record.first_head ?? head;
  run.note({ first_head: first });
  return first;
};

/** A read-only agent works in a copy of what earlier jobs left, under the id of its own job. */
const copyOf = async (
  worktreeId: string,
  worktree: Worktree,
  { repos, wanted, signal }: { repos: Repos; wanted: Wanted; signal: AbortSignal },
): Promise<Worktree> => {
  // Left by a lost attempt.
  await repos.removeWorktree({ worktreeId }, signal);
  const source = { worktree, commit: await repos.capture(worktree, signal) };
  const branch = `service/${worktreeId.slice(0, 8)}`;
  const { baseRef, repoUrl: url, repoKey: key, cacheDir: gitDir } = worktree;
  const repo = key === null ? null : { url, key, gitDir, warnings: [] };
  const jobId = mainId(worktreeId);
  return await repos.addWorktree({ repo, worktreeId, jobId, branch, baseRef, source, wanted, signal });
};

/** Makes the job's worktree: creates the repository if asked, fetches the cache, adds the worktree. */
const checkout = async (record: JobRecord, run: Run, { repos, wanted }: { repos: Repos; wanted: Wanted }) => {
  const repo = record.repo_url === "" ? null : await fetchRepo(record, run, repos);
  const worktreeId = record.worktree_id ?? record.id;
  const worktree = await repos.addWorktree({
    repo,
    worktreeId,
    jobId: record.id,
    branch: record.branch ?? record.options.branch ?? `service/${record.id.slice(0, 8)}`,
    mustBeNew: record.branch === null && record.options.branch !== null,
    baseRef: record.base_ref,
    wanted,
    signal: run.signal,
  });
  for (const warning of worktree.warnings) run.warn(warning);
  run.note({
    worktree_id: worktreeId,
    worktree_path: worktree.path,
    cached_clone: savedDirOf(worktree.cacheDir),
    branch: worktree.branch,
    base_ref: worktree.baseRef,
    base_sha: worktree.baseSha,
  });
  run.stage("worktree_ready", worktree.path);
  return worktree;
};

const fetchRepo = async (record: JobRecord, run: Run, repos: Repos): Promise<CachedRepo> => {
  const { id: jobId, repo_url: url, request } = record;
  const { signal } = run;
  const made = request.create_repo
    ? await repos.createMissing({ url, private: request.private, signal })
    : null;
  if (made !== null) run.warn(made);
  const repo = await repos.fetch({ url, jobId, signal });
  for (const warning of repo.warnings) run.warn(warning);
  run.stage("fetched", repo.gitDir);
  return repo;
};
