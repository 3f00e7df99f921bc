import { existsSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Worktree } from "../../src/contract/worktree.ts";
import { git, makeRemoteIn } from "../remote.ts";
import { spawnService, type Service } from "../service-process.ts";
import { until } from "../until.ts";

type Options = {
  /** Directory to work in. */
  directory: string;
  rounds: number;
  /** A number in [0, 1), as Math.random. */
  random: () => number;
  /** Told after each round, for a program that shows progress. */
  onRound?: (round: number, tally: WorktreeTally) => void;
};

export type WorktreeTally = {
  kills: number;
  /** What the kills met: worktrees that were being prepared, that a job was in, whose removal had begun, was done. */
  preparing: number;
  removed: number;
  /** Removals that the next start had to bring to their end. */
  cutShort: number;
  faults: string[];
};

/** A worktree with a file that is nowhere else. */
type Charge = { worktree: Worktree; file: string; content: string };

/**
 * Kills the service with SIGKILL at random moments while it prepares and removes worktrees and runs jobs in them, starts it
 * again, and checks after each that what was begun is brought to its end and that no unpushed work is gone.
 */
export const worktreeRounds = async ({
  directory,
  rounds,
  random,
  onRound,
}: Options): Promise<WorktreeTally> => {
  const remote = await makeRemoteIn(directory);
  const env = { SERVICE_LOG_LEVEL: "warn" };
  const tally: WorktreeTally = { kills: 0, preparing: 0, removed: 0, cutShort: 0, faults: [] };
  let service = await spawnService({ home: directory, env });
  try {
    for (let round = 1; round <= rounds; round += 1) {
      const charges = await loadWorktrees(service, remote.path, round);
      const asked = [
        service.client.prepare_worktree({ repo_url: remote.path }),
        ...charges.map(({ worktree }) =>
          service.client.cleanup_worktrees({ paths: worktree.path, force: true }),
        ),
      ];
      for (const answer of asked) answer.catch(() => undefined);
      await delay(random() * 1000);
      await service.kill();
      tally.kills += 1;
      await Promise.allSettled(asked);
      await noteRecords(directory, tally);
      service = await spawnService({ home: directory, env });
      await checkSettled(service, tally);
      for (const charge of charges) await checkCharge(service, charge, tally);
      await checkRoot(service, tally);
      await removeRest(service);
      onRound?.(round, tally);
    }
  } finally {
    await service.kill();
  }
  return tally;
};

/** Two prepared worktrees, one with a commit and one with a loose file, and one of a job's own. */
const loadWorktrees = async (service: Service, repo_url: string, round: number): Promise<Charge[]> => {
  const prepared = await Promise.all([0, 1].map(() => service.client.prepare_worktree({ repo_url })));
  const { job } = await service.client.run_task({ task: "scenario: commit-nothing", repo_url });
  await until(async () => (await service.client.get_job({ job_id: job.id })).job.ended_at, {
    what: "the job to end",
  });
  const own = await service.client.get_worktree({ worktree_id: job.id });
  const worktrees = [...prepared, own].map(({ worktree }) => worktree);
  return Promise.all(
    worktrees.map(async (worktree, index) => {
      const charge = {
        worktree,
        file: `work-${index}.txt`,
        content: `round ${round}, ${worktree.worktree_id}`,
      };
      await writeFile(join(worktree.path, charge.file), charge.content);
      if (index === 0) {
        await git(worktree.path, "add", "--all");
        await git(worktree.path, "commit", "--quiet", "--message=Local");
      }
      return charge;
    }),
  );
};

const noteRecords = async (home: string, tally: WorktreeTally): Promise<void> => {
  const records = join(home, ".service", "jobs", "worktrees");
  for (const name of (await readdir(records)).filter((file) => file.endsWith(".json"))) {
    const { status, removing } = JSON.parse(await readFile(join(records, name), "utf8")) as {
      status: string;
      removing: boolean;
    };
    if (status === "preparing") tally.preparing += 1;
    if (removing) tally.cutShort += 1;
  }
};

/** Preparations and removals that were cut short are brought to their end. */
const checkSettled = async ({ client, home }: Service, tally: WorktreeTally): Promise<void> => {
  const records = join(home, ".service", "jobs", "worktrees");
  const isSettled = async (): Promise<boolean> => {
    const names = (await readdir(records)).filter((file) => /^[0-9a-f-]+\.json$/.test(file));
    const texts = await Promise.all(names.map((name) => readFile(join(records, name), "utf8")));
    const isUnsettled = (text: string): boolean =>
      text.includes('"removing":true') || text.includes('"status":"preparing"');
    if (texts.some(isUnsettled)) return false;
    // What is being taken up again may not have been put on record yet.
    const { worktrees } = await client.list_worktrees();
    return !worktrees.some(({ status }) => status === "preparing");
  };
  await until(isSettled, { seconds: 20, what: "preparations and removals to be brought to their end" }).catch(
    async (error: unknown) => {
      const { worktrees } = await client.list_worktrees();
      tally.faults.push(`${String(error)}: ${JSON.stringify(worktrees)}`);
    },
  );
  const { worktrees } = await client.list_worktrees();
  for (const { worktree_id, status, error, prepared } of worktrees)
    if (prepared && status !== "ready") tally.faults.push(`${worktree_id} is ${status}: ${error}`);
};

/** It is still all there, or all gone with its work saved; in between only where the next removal makes an end of it. */
const checkCharge = async (service: Service, charge: Charge, tally: WorktreeTally): Promise<void> => {
  const { worktree, file, content } = charge;
  const { worktree_id: id, path } = worktree;
  if (existsSync(path)) {
    const kept = await readFile(join(path, file), "utf8").catch(() => null);
    if (kept !== content) tally.faults.push(`${id}: its directory is there, but ${file} is ${kept}`);
    await service.client.cleanup_worktrees({ paths: id, force: true });
  } else {
    tally.removed += 1;
    const { worktrees } = await service.client.list_worktrees();
    if (worktrees.some((other) => other.worktree_id === id))
      await service.client.cleanup_worktrees({ paths: id, force: true });
  }
  const cache = join(service.home, "service-repos", String(worktree.repo_key), "saved.git");
  const ref = `refs/service/salvage/${id}`;
  const saved = await git(cache, "show", `${ref}:${file}`).catch(() => null);
  if (saved !== content) tally.faults.push(`${id}: removed, but ${ref} has ${saved} as ${file}`);
  const told = worktree.prepared
    ? (await service.client.get_worktree({ worktree_id: id })).worktree.salvage_ref
    : (await service.client.get_job({ job_id: id })).job.salvage_ref;
  if (told !== ref) tally.faults.push(`${id}: its work is under ${ref}, but it says ${told}`);
  const left = [path].filter((place) => existsSync(place));
  if (left.length > 0) tally.faults.push(`${id}: removed, but ${left.join(" and ")} are left`);
};

/** Otherwise each round has more to look at than the one before. */
const removeRest = async ({ client }: Service): Promise<void> => {
  const paths = (await client.list_worktrees()).worktrees.map(({ worktree_id }) => worktree_id).join(",");
  if (paths !== "") await client.cleanup_worktrees({ paths, force: true });
};

/** Nothing lies about that no list shows. */
const checkRoot = async ({ client, home }: Service, tally: WorktreeTally): Promise<void> => {
  const root = join(home, ".service", "worktrees");
  const ids = new Set((await client.list_worktrees()).worktrees.map(({ worktree_id }) => worktree_id));
  const names = [...(await readdir(root)), ...(await readdir(join(root, ".owned")))];
  const stray = names.filter(
    (name) => name !== ".owned" && name !== ".lock" && !ids.has(name.replace(/\..*$/, "")),
  );
  if (stray.length > 0) tally.faults.push(`left in the root: ${stray.join(", ")}`);
};
