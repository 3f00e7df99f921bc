import { leftOutText, type DiffFormat, type JobDiff } from "../../contract/diff.ts";
import { connect } from "../connect.ts";
import { CliError, exitCode, type ExitCode } from "../failure.ts";
import { rememberJob, resolveJobId } from "../job-id.ts";
import { page } from "../pager.ts";
import { note, painter, print, printJson } from "../print.ts";
import { counted } from "../../view/columns.ts";
import { paintPatch, paintStat } from "../../view/patch.ts";
import { oneLine } from "../../view/sanitise.ts";
import { checkoutHere, git } from "../user-git.ts";

type DiffOptions = { stat?: boolean; nameOnly?: boolean; repository?: string; json?: boolean };

const read = async (word: string, format: DiffFormat, repository = ""): Promise<JobDiff> => {
  const { client } = connect();
  const job_id = await resolveJobId(client, word);
  const body = await client.get_diff({ job_id, format, max_bytes: 10_000_000, repository });
  await rememberJob(body.job_id);
  return body;
};

/** `svc diff` */
export const diff = async (
  id: string,
  { stat, nameOnly, repository, json }: DiffOptions,
): Promise<ExitCode> => {
  const body = await read(id, nameOnly === true ? "names" : stat === true ? "stat" : "patch", repository);
  if (json === true) {
    printJson(body);
    return exitCode.ok;
  }
  if (body.files.length === 0 && process.stdout.isTTY) note(`Job ${body.job_id} has changed nothing`);
  const paint = painter(process.stdout);
  const shown = process.stdout.isTTY ? (stat === true ? paintStat : paintPatch)(body.diff, paint) : body.diff;
  if (shown !== "") await page(shown);
  if (body.truncated)
    note(
      `Not all of it: svc diff shows 10 MB at most; svc checkout ${body.job_id} brings all. Left out: ${oneLine(leftOutText(body.files)) || "the last names"}`,
    );
  else if (body.note !== null) note(oneLine(body.note));
  return exitCode.ok;
};

/** `svc apply` */
export const apply = async (id: string): Promise<ExitCode> => {
  const cwd = await checkoutHere("run svc apply in a checkout of the job's repository");
  const { job_id, files, diff: patch, truncated, altered, diff_stat } = await read(id, "patch");
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
