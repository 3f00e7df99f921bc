import type { Client } from "../../client/client.ts";
import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import type { Job } from "../../contract/job.ts";
import { repositoryName } from "../../contract/repository-url.ts";
import { connect } from "../connect.ts";
import { CliError, exitCode, usageError, type ExitCode } from "../failure.ts";
import { findJob } from "../job-id.ts";
import { print } from "../print.ts";
import { oneLine } from "../../view/sanitise.ts";
import { checkoutHere, git, requireGit } from "../user-git.ts";

/** `svc checkout` */
export const checkout = async (word: string): Promise<ExitCode> => {
  const { client } = connect();
  const whole = await findJob(client, word);
  const { id, repo_url: url, repositories } = whole;
  if (url === "" && !hasNothing(whole))
    throw new CliError(
      `Job ${id} had no repository: svc apply ${id} brings its change into any checkout, as uncommitted edits`,
    );
  const isOne = repositories.length === 0;
  const { job, remote } = isOne && hasNothing(whole) ? { job: whole, remote: "" } : await jobHere(whole);
  const { branch, repo_url: repository } = job;
  const further = repository === url ? "" : repository;
  const isChanged = isOne ? !hasNothing(job) : await hasChanged(client, id, further);
  if (!isChanged || branch === null)
    throw new CliError(
      `Job ${id} has changed nothing${repositories.length > 0 ? ` in ${repository}` : ""}: there is no branch to check out`,
    );
  // Where this checkout had the job's branch last, from a remote or from the service.
  const noted = `refs/svc/${branch}`;
  const known = [`refs/remotes/${remote}/${branch}`, noted];
  const before = await Promise.all(
    known.map(async (ref) => (await git(["rev-parse", "--verify", "--quiet", ref])).stdout),
  );
  const from = await fetch(job, remote);
  const tip = await requireGit("read what it fetched", ["rev-parse", "--verify", "FETCH_HEAD^{commit}"]);
  await switchTo(branch, tip, before);
  await git(["update-ref", noted, tip]);
  if (from === remote) await git(["branch", "--quiet", `--set-upstream-to=${remote}/${branch}`, branch]);
  print(`On branch ${oneLine(branch)}, from ${oneLine(from)}`);
  return exitCode.ok;
};

/** Whether the job has changed something in this one of its repositories. */
const hasChanged = async (client: Client, job_id: string, repository: string): Promise<boolean> =>
  (await client.get_diff({ job_id, repository, format: "names", max_bytes: 1000 })).files.length > 0;

/** The job as it stands in the repository that the current directory is a checkout of, and the remote that it is there. */
const jobHere = async (job: Job): Promise<{ job: Job; remote: string }> => {
  const { id, repo_url: url, repositories } = job;
  const here = await checkoutHere(`run svc checkout in a checkout of ${url} (git clone ${url})`);
  const own = await remoteHere(url, here);
  if (own !== null) return { job, remote: own };
  for (const each of repositories) {
    const remote = await remoteHere(each.repo_url, here);
    if (remote !== null) return { job: inFurther(job, each), remote };
  }
  const { stdout } = await git(["remote", "--verbose"]);
  const named = addressesIn(stdout).map(([, address]) => oneLine(address).replace(/\/\/[^/@]*@/, "//"));
  const urls = [url, ...repositories.map((each) => each.repo_url)];
  throw usageError(
    `Job ${id} worked on ${urls.join(", ")}, and this checkout (${here}) is of ${named.join(", ") || "no remote"}: go to a checkout of ${urls.join(" or ")}`,
  );
};

/** A further repository's work is on its own branch: pushed, or kept by the service. */
const inFurther = (
  job: Job,
  { repo_url, branch, cached_clone, error }: Job["repositories"][number],
): Job => ({
  ...job,
  repo_url,
  branch,
  cached_clone,
  salvage_ref: `refs/service/salvage/${job.id}`,
  stages:
    error === null && !cached_clone ? [{ stage: "pushed", at: job.created_at, attempt: job.attempt }] : [],
});

/** The remote of this checkout that is the repository; its path, if the job ran on this checkout itself; null: none. */
export const remoteHere = async (url: string, here: string): Promise<string | null> => {
  const wanted = await placeOf(url, here);
  if ((await placeOf(here, here)) === wanted) return here;
  const { stdout } = await git(["remote", "--verbose"]);
  for (const [name, address] of addressesIn(stdout))
    if ((await placeOf(address, here)) === wanted) return name;
  return null;
};

const addressesIn = (remotes: string): [name: string, address: string][] =>
  [...remotes.matchAll(/^(\S+)\t(.*) \(fetch\)$/gm)].map(([, name = "", address = ""]) => [name, address]);

/** The same for every way to write the address of a repository: over ssh or https, with or without `.git`. */
const placeOf = async (address: string, here: string): Promise<string> => {
  const name = address.startsWith(".") ? resolve(here, address) : repositoryName(address);
  return name.startsWith("/") ? await realpath(name).catch(() => name) : name;
};

/** Fetches the job's commits into FETCH_HEAD. Resolves to where they came from. */
const fetch = async (job: Job, remote: string): Promise<string> => {
  const { id, branch, status, ended_at, salvage_ref: saved, cached_clone: clone } = job;
  const ref = `refs/heads/${branch}`;
  const tracked = remote.startsWith("/") ? ref : `+${ref}:refs/remotes/${remote}/${branch}`;
  const tries: [from: string, ref: string][] = isPushed(job) ? [[remote, tracked]] : [];
  if (ended_at !== null && clone !== null && existsSync(clone))
    for (const each of [status === "succeeded" ? ref : (saved ?? ref), ref]) tries.push([clone, each]);
  let said = "";
  for (const [from, wanted] of tries) {
    const fetched = await git(["fetch", "--quiet", "--no-tags", "--", from, wanted]);
    if (fetched.ok) return from;
    said ||= `. git says: ${fetched.said}`;
  }
  const unpushed =
    ended_at === null ? "is not finished" : `is in ${clone} on the instance ${job.pod_name}, not pushed`;
  const where = isPushed(job) ? `was pushed to ${job.repo_url} but cannot be fetched` : unpushed;
  throw new CliError(
    `The branch ${branch} ${where}. svc apply ${id} brings the change as uncommitted edits${said}`,
  );
};

const isPushed = ({ stages }: Job): boolean => stages.some(({ stage }) => stage === "pushed");

const hasNothing = (job: Job): boolean =>
  job.ended_at !== null &&
  job.salvage_ref === null &&
  !isPushed(job) &&
  (job.commit_sha === null || job.diff_stat?.files === 0);

/** Makes or forwards the local branch; git refuses where a user's edits are in the way. `before`: earlier tips of the job. */
const switchTo = async (branch: string, tip: string, before: readonly string[]): Promise<void> => {
  const own = await git(["rev-parse", "--verify", "--quiet", `refs/heads/${branch}`]);
  if (!own.ok) return void (await requireGit("switch", ["switch", "--quiet", "--create", branch, tip]));
  const isBehind = (await git(["merge-base", "--is-ancestor", own.stdout, tip])).ok;
  const isAhead = (await git(["merge-base", "--is-ancestor", tip, own.stdout])).ok;
  const isRewritten = !isBehind && before.includes(own.stdout);
  if (!isBehind && !isAhead && !isRewritten)
    throw new CliError(
      `Your branch ${branch} has commits that the job's does not have, and the other way round. Rename yours (git branch -m ${branch} NAME), or merge ${tip}`,
    );
  await requireGit("switch", ["switch", "--quiet", branch]);
  if (isRewritten) await requireGit("update the branch", ["reset", "--quiet", "--keep", tip]);
  if (isBehind) await requireGit("update the branch", ["merge", "--quiet", "--ff-only", tip]);
};
