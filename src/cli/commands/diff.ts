import { leftOutText, type DiffFormat, type JobDiff } from "../../contract/diff.ts";
import type { Job } from "../../contract/job.ts";
import { isCalled, repositoryName } from "../../contract/repository-url.ts";
import { connect } from "../connect.ts";
import { CliError, exitCode, isBug, type ExitCode } from "../failure.ts";
import { findJob } from "../job-id.ts";
import { page } from "../pager.ts";
import { note, painter, print, printJson } from "../print.ts";
import { counted } from "../../view/columns.ts";
import { paintPatch, paintStat } from "../../view/patch.ts";
import { oneLine } from "../../view/sanitise.ts";
import { checkoutHere, git } from "../user-git.ts";
import { remoteHere } from "./checkout.ts";

type DiffOptions = { repository?: string; stat?: boolean; nameOnly?: boolean; json?: boolean };

/** The change in one of a job's repositories. */
const read = async (job: Job, url: string, format: DiffFormat): Promise<JobDiff> =>
  await connect().client.get_diff({
    job_id: job.id,
    repository: url === job.repo_url ? "" : url,
    format,
    max_bytes: 10_000_000,
  });

const urlsOf = ({ repo_url, repositories }: Job) => [repo_url, ...repositories.map((each) => each.repo_url)];

const namedUrls = (job: Job, { repository, json }: DiffOptions): string[] => {
  if (repository !== undefined) return [urlsOf(job).find((url) => isCalled(url, repository)) ?? repository];
  return json === true ? [job.repo_url] : urlsOf(job);
};

/** The change in each; one that cannot be had hides no other, and why stands in `faults`. */
const readAll = async (job: Job, urls: readonly string[], format: DiffFormat) => {
  const reads = urls.map(async (url) => [url, await read(job, url, format)] as const);
  const all = await Promise.allSettled(reads);
  const bodies = all.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  const faults = all.flatMap((each): unknown[] => (each.status === "rejected" ? [each.reason] : []));
  if (bodies.length === 0 || faults.some(isBug)) throw faults[0];
  return { bodies, faults: faults.map((fault) => (fault instanceof Error ? fault.message : String(fault))) };
};

/** `svc diff`: of each of the job's repositories. */
export const diff = async (word: string, options: DiffOptions): Promise<ExitCode> => {
  const job = await findJob(connect().client, word);
  const format = options.nameOnly === true ? "names" : options.stat === true ? "stat" : "patch";
  const { bodies, faults } = await readAll(job, namedUrls(job, options), format);
  if (options.json === true) {
    for (const [, body] of bodies) printJson(body);
    return exitCode.ok;
  }
  const isEmpty = faults.length === 0 && bodies.every(([, { files }]) => files.length === 0);
  if (isEmpty && process.stdout.isTTY) note(`Job ${job.id} has changed nothing`);
  const shown = shownText(bodies, format === "stat" ? paintStat : paintPatch);
  if (shown !== "") await page(shown);
  for (const [, body] of bodies) noteMissing(body);
  faults.forEach((fault) => note(oneLine(fault)));
  return faults.length === 0 ? exitCode.ok : exitCode.failure;
};

const noteMissing = ({ job_id: id, files, truncated, note: missing }: JobDiff): void => {
  if (truncated)
    note(
      `Not all of it: svc diff shows 10 MB at most; svc checkout ${id} brings all. Left out: ${oneLine(leftOutText(files)) || "the last names"}`,
    );
  else if (missing !== null) note(oneLine(missing));
};

/** On a terminal in colours, below the name of each repository where there are several. */
const shownText = (bodies: (readonly [string, JobDiff])[], paintText: typeof paintPatch): string => {
  const changed = bodies.filter(([, { diff: text }]) => text !== "");
  if (!process.stdout.isTTY) return changed.map(([, { diff: text }]) => text).join("");
  const paint = painter(process.stdout);
  const heading = (url: string) => (bodies.length > 1 ? `${paint("bold", repositoryName(url))}\n` : "");
  return changed.map(([url, { diff: text }]) => heading(url) + paintText(text, paint)).join("\n");
};

/** The one of the job's repositories that the checkout is of; its own where it is of none. */
const repositoryHere = async (job: Job, here: string): Promise<string> => {
  if (job.repositories.length > 0)
    for (const url of urlsOf(job)) if ((await remoteHere(url, here)) !== null) return url;
  return job.repo_url;
};

/** `svc apply` */
export const apply = async (word: string): Promise<ExitCode> => {
  const cwd = await checkoutHere("run svc apply in a checkout of the job's repository");
  const job = await findJob(connect().client, word);
  const repository = await repositoryHere(job, cwd);
  const { job_id, files, diff: patch, truncated, altered, diff_stat } = await read(job, repository, "patch");
  if (truncated || altered)
    throw new CliError(
      `The change of job ${job_id} cannot be applied as a patch: ${truncated ? "it is larger than 10 MB" : "secrets in it are masked, or it has bytes that are not UTF-8"}. If its branch can be fetched, use svc checkout ${job_id}`,
    );
  if (files.length === 0) {
    note(`Job ${job_id} has changed nothing`);
    return exitCode.ok;
  }
  const run = (...options: string[]) =>
    git(["apply", "--whitespace=nowarn", ...options], { cwd, input: patch });
  // With --3way git also changes the index, and refuses files with uncommitted edits.
  const fits = (await run("--check")).ok;
  if (!fits && (await run("--check", "--reverse")).ok) {
    note(`The change of job ${job_id} is already in this checkout`);
    return exitCode.ok;
  }
  const applied = fits ? await run() : await run("--3way");
  const conflicts = [...new Set(applied.said.match(/(?<=^U ).*$/gm)?.map(oneLine))];
  if (conflicts.length > 0)
    throw new CliError(
      `Applied with conflicts in ${conflicts.join(", ")}: settle the marked lines, then git add the files`,
    );
  if (!applied.ok)
    throw new CliError(
      `git does not take the change of job ${job_id}: ${applied.said}. If your own edits are in the way, commit or stash them first`,
    );
  const { insertions, deletions } = diff_stat;
  print(`Applied ${counted(diff_stat.files, "file")}, +${insertions} −${deletions}; git status shows them`);
  return exitCode.ok;
};
