import pLimit from "p-limit";
import type { DiffFormat, JobDiff } from "../contract/diff.ts";
import { ServiceError } from "../contract/errors.ts";
import { redactDeep } from "../lib/redact.ts";
import { isCalled } from "../contract/repository-url.ts";
import { furtherId, mainId, repositoryNames } from "../repos/several.ts";
import { RepoError, type Diff } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { Dependencies } from "./dependencies.ts";

type Asked = {
  record: JobRecord;
  repository: string;
  format: DiffFormat;
  max_bytes: number;
  signal: AbortSignal;
};

type Sources = Pick<Dependencies, "jobs" | "repos" | "redact" | "settings">;

/** Answers what a job has changed. A few at a time: each reads the files of a worktree. */
export const createJobDiff = (sources: Sources) => {
  const limit = pLimit(4);
  return (all: Asked): Promise<JobDiff> =>
    limit(async () => {
      const asked = { ...all, record: sideOf(all.record, all.repository) };
      const change = await changeOf(sources, asked.record);
      const diff = change.source === "none" ? nothing : await read(sources, asked, change);
      return answer(sources, asked, { source: change.source, ...diff });
    });
};

/** The job as it stands in one of its repositories. @throws ServiceError where it has no such */
const sideOf = (record: JobRecord, name: string): JobRecord => {
  const { id, repo_url, repositories, worktree_id, read_only } = record;
  if (name === "" || isCalled(repo_url, name)) return record;
  const at = repositories.findIndex((each) => isCalled(each.repo_url, name));
  const entry = repositories[at];
  if (entry === undefined) {
    const names = [repo_url, ...repositories.map((each) => each.repo_url)].join(", ");
    throw new ServiceError("invalid_request", `repository: the job ${id} has no ${name}; it has ${names}`);
  }
  const names = repositoryNames([repo_url, ...repositories.map((each) => each.repo_url)]);
  const main = read_only === true ? id : worktree_id;
  return {
    ...record,
    ...entry,
    read_only: false,
    salvage_ref: null,
    worktree_path: entry.path,
    worktree_id: main === null ? null : furtherId(main, names[at + 1] ?? ""),
  };
};

const nothing: Diff = {
  base: null,
  head: null,
  files: [],
  text: "",
  truncated: false,
  lossy: false,
  kept: [],
};

/** `head` as in `DiffRequest`. */
type Change = { source: JobDiff["source"]; head: string | null };

/** Where the change of the job is, judged from the record. */
const changeOf = async (sources: Sources, record: JobRecord): Promise<Change> => {
  const { status, unsettled, salvage_ref, commit_sha, branch } = record;
  if (record.worktree_path === null || status === "queued") return none;
  if (status === "running" || unsettled) return files;
  if (status !== "succeeded" && salvage_ref !== null) return { source: "salvage", head: salvage_ref };
  if (commit_sha && branch !== null) return { source: "branch", head: commit_sha };
  return status !== "succeeded" && (await isLeft(sources, record)) ? files : none;
};

const files: Change = { source: "worktree", head: null };
const none: Change = { source: "none", head: null };

/** Whether the worktree is as the job left it: work that cannot be saved stays there. */
const isLeft = async ({ jobs, repos }: Sources, record: JobRecord): Promise<boolean> => {
  const { id, worktree_id: own, read_only } = record;
  const worktree = own === null ? null : mainId(own);
  if (worktree === null || read_only === true || (await repos.findWorktree(own ?? worktree)) === null)
    return false;
  return (await jobs.usesOfWorktree(worktree)).at(-1)?.jobId === id;
};

const read = async (
  { repos, redact, settings }: Sources,
  { record, format, max_bytes: maxBytes, signal }: Asked,
  { source, head }: Change,
): Promise<Diff> => {
  const { id, repo_url: repoUrl, base_sha: base } = record;
  const find = (): Promise<Diff | null> =>
    repos.diff({
      repoUrl,
      // A read-only agent works in a copy under the id of its job.
      worktreeId: record.read_only === true ? id : record.worktree_id,
      head,
      base,
      format,
      maxBytes,
      signal,
    });
  try {
    const found = await find();
    if (found !== null || source !== "branch" || !wasPushed(record))
      return found ?? missing(record, settings);
    await repos.fetch({ url: repoUrl, jobId: id, signal });
    return (await find()) ?? missing(record, settings);
  } catch (error) {
    if (!(error instanceof RepoError)) throw error;
    throw new ServiceError("worktree_failed", redact(error.message), { cause: error });
  }
};

const wasPushed = ({ stages }: JobRecord): boolean => stages.some(({ stage }) => stage === "pushed");

/** Says where the change may be. */
const missing = (record: JobRecord, { podName }: { podName: string }): never => {
  const { id, branch, repo_url: url, pod_name: owner, cached_clone: clone } = record;
  const where = wasPushed(record)
    ? `its branch ${branch} was pushed to ${url} and is not there any more. Restore the branch, or read the pull request`
    : owner === podName
      ? `it was in ${clone ?? record.worktree_path}, where saved work is deleted after SERVICE_SALVAGE_TTL. Submit the task again`
      : `it is on the disk of the instance ${owner}. Ask that instance`;
  throw new ServiceError(
    "change_not_found",
    `The change of the job ${id} is not on the instance ${podName}: ${where}`,
  );
};

const maxFiles = 1000;

const answer = (
  { redact }: Sources,
  { record, max_bytes }: Asked,
  { source, base, head, files, kept, truncated, lossy, ...diff }: Diff & Pick<JobDiff, "source">,
): JobDiff => {
  const text = redact(diff.text);
  const altered = lossy || text !== diff.text;
  const sum = (count: "insertions" | "deletions"): number =>
    files.reduce((all, file) => all + file[count], 0);
  const notes: [applies: boolean, note: string][] = [
    [record.status === "queued", "The job waits: it has changed nothing yet."],
    [truncated, `More than ${max_bytes} bytes: give a larger max_bytes, or the format stat or names.`],
    [altered, "Cannot be applied: secrets in it are masked, or bytes that are not UTF-8 replaced."],
    [files.length > maxFiles, `files has the first ${maxFiles} of ${files.length}.`],
    [kept.length > 0, `Not in it, because git does not take it: ${redact(kept.join(", "))}.`],
  ];
  const note = notes.flatMap(([applies, text]) => (applies ? [text] : [])).join(" ");
  return {
    job_id: record.id,
    source,
    base,
    head,
    diff_stat: { files: files.length, insertions: sum("insertions"), deletions: sum("deletions") },
    files: redactDeep(files.slice(0, maxFiles), redact),
    diff: text,
    truncated,
    altered,
    note: note === "" ? null : note,
  };
};
