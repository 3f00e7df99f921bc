import pLimit from "p-limit";
import { leftOutText, type DiffFormat, type JobDiff } from "../contract/diff.ts";
import { ServiceError } from "../contract/errors.ts";
import { redactDeep } from "../lib/redact.ts";
import { RepoError, salvageRef, type Diff } from "../repos/repos.ts";
import { furtherId, mainId, repositoryNames, wasSaved } from "../repos/several.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { Dependencies } from "./dependencies.ts";

type Asked = {
  record: JobRecord;
  format: DiffFormat;
  max_bytes: number;
  /** Name or URL of a further one; empty: the job's own. */
  repository: string;
  signal: AbortSignal;
};

type Sources = Pick<Dependencies, "jobs" | "repos" | "redact" | "settings">;

/** Answers what a job has changed. A few at a time: each reads the files of a worktree. */
export const createJobDiff = (sources: Sources) => {
  const limit = pLimit(4);
  return ({ record, repository, ...rest }: Asked): Promise<JobDiff> =>
    limit(async () => {
      const asked = { ...rest, record: repository === "" ? record : furtherOf(record, repository) };
      const change = await changeOf(sources, asked.record);
      const diff = change.source === "none" ? nothing : await read(sources, asked, change);
      return answer(sources, asked, { source: change.source, ...diff });
    });
};

const nothing = { base: null, head: null, files: [], text: "", truncated: false, lossy: false, kept: [] };

/** The job as if a further repository were its own. @throws ServiceError `invalid_request` */
const furtherOf = (record: JobRecord, repository: string): JobRecord => {
  const names = repositoryNames([record.repo_url, ...record.repositories.map(({ repo_url }) => repo_url)]);
  const nth = record.repositories.findIndex(
    ({ repo_url }, at) => names[at + 1] === repository || repo_url === repository,
  );
  const further = record.repositories[nth];
  if (further === undefined) {
    const known = names.slice(1).join(", ") || "none";
    throw new ServiceError("invalid_request", `repository: the job's further repositories are: ${known}`);
  }
  const { path, repo_url, base_sha, branch, commit_sha, cached_clone } = further;
  const id = furtherId(record.worktree_id ?? record.id, names[nth + 1] ?? "");
  const places = { worktree_path: path, worktree_id: id };
  const salvage_ref = wasSaved(record.warnings, repo_url) ? salvageRef(record.id) : null;
  return { ...record, repo_url, base_sha, branch, commit_sha, cached_clone, salvage_ref, ...places };
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
  const { id, worktree_id: worktree, read_only } = record;
  if (worktree === null || read_only === true || (await repos.findWorktree(worktree)) === null) return false;
  return (await jobs.usesOfWorktree(mainId(worktree))).at(-1)?.jobId === id;
};

const read = async (
  sources: Sources,
  asked: Omit<Asked, "repository">,
  { source, head }: Change,
): Promise<Diff> => {
  const { repos, redact, settings } = sources;
  const { record, format, max_bytes: maxBytes, signal } = asked;
  const { id: jobId, repo_url: repoUrl, base_sha: base } = record;
  const find = (): Promise<Diff | null> =>
    repos.diff({
      repoUrl,
      // A read-only agent works in a copy under the id of its job.
      worktreeId: record.read_only === true ? copyId(record) : record.worktree_id,
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
    await repos.fetch({ url: repoUrl, jobId, signal });
    return (await find()) ?? missing(record, settings);
  } catch (error) {
    if (!(error instanceof RepoError)) throw error;
    throw new ServiceError("worktree_failed", redact(error.message), { cause: error });
  }
};

const copyId = ({ id, worktree_id: own }: JobRecord): string => own?.replace(mainId(own), id) ?? id;

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
    `The change of the job ${id}${url && ` in ${url}`} is not on the instance ${podName}: ${where}`,
  );
};

const maxFiles = 1000;

const answer = (
  { redact }: Sources,
  { record, max_bytes }: Pick<Asked, "record" | "max_bytes">,
  { source, base, head, files, kept, truncated, lossy, ...diff }: Diff & Pick<JobDiff, "source">,
): JobDiff => {
  const text = redact(diff.text);
  const altered = lossy || text !== diff.text;
  const sum = (count: "insertions" | "deletions") => files.reduce((all, file) => all + file[count], 0);
  // Who sees them has to learn what diff lacks.
  const first = files.length > maxFiles ? files.filter((file) => file.left_out) : [];
  const shown = [...new Set([...first, ...files])].slice(0, maxFiles);
  const notes: [applies: boolean, note: string][] = [
    [record.status === "queued", "The job waits: it has changed nothing yet."],
    [truncated, `More than ${max_bytes} bytes: give a larger max_bytes, or the format stat or names.`],
    [files.some((file) => file.left_out), `Left out of diff: ${redact(leftOutText(files))}.`],
    [altered, "Cannot be applied: secrets in it are masked, or bytes that are not UTF-8 replaced."],
    [files.length > maxFiles, `files has ${maxFiles} of ${files.length}.`],
    [kept.length > 0, `Not in it, because git does not take it: ${redact(kept.join(", "))}.`],
  ];
  const note = notes.flatMap(([applies, text]) => (applies ? [text] : [])).join(" ");
  return {
    job_id: record.id,
    source,
    base,
    head,
    diff_stat: { files: files.length, insertions: sum("insertions"), deletions: sum("deletions") },
    files: redactDeep(shown, redact),
    diff: text,
    truncated,
    altered,
    note: note === "" ? null : note,
  };
};
