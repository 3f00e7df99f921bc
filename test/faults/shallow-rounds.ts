import { existsSync } from "node:fs";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Job } from "../../src/contract/job.ts";
import { makeRemoteIn } from "../remote.ts";
import { fakeAgent, spawnService, type Service } from "../service-process.ts";
import { until } from "../until.ts";
import { isSaved } from "./saved-work.ts";

type Options = {
  /** Directory to work in. */
  directory: string;
  rounds: number;
  /** A number in [0, 1), as Math.random. */
  random: () => number;
  /** Told after each round, for a program that shows progress. */
  onRound?: (round: number, tally: ShallowTally) => void;
};

export type ShallowTally = {
  /** Jobs whose agent fetched without history and worked on that; how often the remote was away afterwards. */
  jobs: number;
  away: number;
  kills: number;
  /** Where the work was in the end. */
  pushed: number;
  salvaged: number;
  kept: number;
  faults: string[];
};

/**
 * Each round an agent fetches without history, commits on that and leaves a loose file; now and then the remote is away
 * afterwards, the service is killed, or the worktree's time is over. What the record says is saved can be read back, and
 * the rest is still in its worktree.
 */
export const shallowRounds = async ({
  directory,
  rounds,
  random,
  onRound,
}: Options): Promise<ShallowTally> => {
  const remote = await makeRemoteIn(directory);
  const repos = join(directory, "service-repos");
  const [agent, away] = [join(directory, "agent"), join(directory, "away.git")];
  await writeFile(agent, shallowAgent(directory, remote.path), { mode: 0o755 });
  const tally: ShallowTally = { jobs: 0, away: 0, kills: 0, pushed: 0, salvaged: 0, kept: 0, faults: [] };
  // The agents change the remote.
  const env = { SERVICE_LOG_LEVEL: "warn", SERVICE_AGENT_CLI_BINARY: agent, SERVICE_AGENT_SANDBOX: "off" };
  let service = await spawnService({ home: directory, env });
  const restart = async (more: Record<string, string> = {}): Promise<void> => {
    await service.kill();
    service = await spawnService({ home: directory, env: { ...env, ...more } });
  };
  try {
    for (let round = 1; round <= rounds; round += 1) {
      const goesAway = random() < 0.4;
      if (goesAway) await writeFile(join(directory, "go-away"), "");
      const { job } = await service.client.run_task({
        task: `scenario: ${random() < 0.5 ? "noop" : "error-result"}`,
        repo_url: remote.path,
      });
      if (random() < 0.4) {
        await delay(random() * 1500);
        await restart();
        tally.kills += 1;
      }
      const ended = await endOf(service, job.id);
      const [key = ""] = (await readdir(repos)).filter((name) => /^[0-9a-f]{12}$/.test(name));
      const cache = join(repos, key, "saved.git");
      await rm(join(directory, "go-away"), { force: true });
      if (existsSync(away)) {
        tally.away += 1;
        await check(ended, { cache, remote: away, tally: { ...tally }, faults: tally.faults });
        await rename(away, remote.path);
      }
      if (!(await readFile(join(directory, "worked"), "utf8").catch(() => "")).includes(job.id)) continue;
      tally.jobs += 1;
      await check(ended, { cache, remote: remote.path, tally: { ...tally }, faults: tally.faults });
      // Whoever removes it then, its work is safe: retention, or a user.
      if (random() < 0.5) {
        await restart({ SERVICE_WORKTREE_TTL: "1" });
        await until(() => !existsSync(String(ended.worktree_path)), {
          what: "the worktree's time to be over",
        }).catch((error: unknown) => tally.faults.push(`${job.id}: ${String(error)}`));
        await restart();
      } else await service.client.cleanup_worktrees({ paths: job.id, force: true });
      const now = (await service.client.get_job({ job_id: job.id })).job;
      await check(now, { cache, remote: remote.path, tally, faults: tally.faults });
      onRound?.(round, tally);
    }
  } finally {
    await service.kill();
  }
  return tally;
};

/** Somebody pushes, and the agent works on that, without the history before it; then the remote goes away, if it is to. */
const shallowAgent = (directory: string, remote: string): string => `#!/bin/sh
if [ -n "$SERVICE_JOB_ID" ] && [ -e .git ] && ! [ -e work.txt ]; then
  export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@localhost GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@localhost
  their="git --git-dir=${remote}"
  $their update-ref refs/heads/main "$($their commit-tree -p main -m "$SERVICE_JOB_ID" "main^{tree}")"
  git fetch --quiet --depth=1 "file://${remote}" main && git reset --quiet --hard FETCH_HEAD &&
    echo "$SERVICE_JOB_ID" >work.txt && git add work.txt &&
    git commit --quiet --message=Work &&
    echo "$SERVICE_JOB_ID" >loose.txt && echo "$SERVICE_JOB_ID" >>"${directory}/worked"
  if [ -e "${directory}/go-away" ]; then mv "${remote}" "${directory}/away.git"; fi
fi
exec "${fakeAgent}" "$@"
`;

const endOf = async ({ client }: Service, job_id: string): Promise<Job> =>
  await until(
    async () => {
      const { job } = await client.get_job({ job_id });
      return job.ended_at === null ? null : job;
    },
    { what: `${job_id} to end` },
  );

type Place = { cache: string; remote: string; tally: ShallowTally; faults: string[] };

/** Both files are where the record says, or in the worktree. */
const check = async (job: Job, { cache, remote, tally, faults }: Place): Promise<void> => {
  const { id, worktree_path: path, salvage_ref: ref, branch } = job;
  const pushed = (file: string) => isSaved(remote, `refs/heads/${branch}`, file);
  const salvaged = async (file: string) => ref !== null && (await isSaved(cache, ref, file));
  const isThere = path !== null && existsSync(join(path, "work.txt"));
  const [isPushed, isSalvaged] = [await pushed("work.txt"), await salvaged("work.txt")];
  if (isThere) tally.kept += 1;
  if (isPushed) tally.pushed += 1;
  if (isSalvaged) tally.salvaged += 1;
  if (ref !== null && !isPushed && !isSalvaged) faults.push(`${id}: ${ref} is told, and has no work.txt`);
  for (const file of ["work.txt", "loose.txt"])
    if (!isThere && !(await pushed(file)) && !(await salvaged(file)))
      faults.push(
        `${id}: ${file} is neither pushed nor saved nor in ${path}: ${JSON.stringify(job.warnings)}`,
      );
};
