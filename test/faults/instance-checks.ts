import { readdir } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { isFinal } from "../../src/contract/job.ts";
import type { JobRecord } from "../../src/store/job-record.ts";
import { agentProcesses } from "../processes.ts";
import { git } from "../remote.ts";
import { until } from "../until.ts";
import type { Accepted } from "./instance-load.ts";
import { isSaved } from "./saved-work.ts";
import type { Hit, InstanceTally } from "./instance-tally.ts";
import type { Note, World } from "./instance-world.ts";

type Jobs = { accepted: Accepted[]; hits: Hit[]; tally: InstanceTally };

/** To be called when every instance is back and every job is over: all ended by the rules, once, with their work. */
export const checkJobs = async (world: World, { accepted, hits, tally }: Jobs): Promise<void> => {
  const notes = Map.groupBy(await world.notes(), ({ job }) => job);
  for (const job of accepted) {
    tally.jobs += 1;
    const record = await world.record(job.id);
    if (record === null) {
      tally.faults.push(`job ${job.id}, which was accepted, is gone`);
      continue;
    }
    const about: About = {
      job,
      record,
      hits: hits.filter(({ id }) => id === job.id),
      notes: notes.get(job.id) ?? [],
      fault: (what) => void tally.faults.push(`${sketch(record, job)}: ${what}`),
    };
    const outcome = `${record.status}${record.failure_reason === null ? "" : ` ${record.failure_reason}`}`;
    tally.outcomes[outcome] = (tally.outcomes[outcome] ?? 0) + 1;
    checkEnd(about);
    checkAgents(about, tally);
    await checkWork(world, about);
  }
};

type About = { job: Accepted; record: JobRecord; hits: Hit[]; notes: Note[]; fault: (what: string) => void };

const sketch = ({ id, status, attempt, pod_name, failure_reason, error }: JobRecord, job: Accepted): string =>
  `job ${id} (${status} ${failure_reason ?? ""}, attempt ${attempt} on ${pod_name}, ${JSON.stringify(job)}, ${error})`;

const maxAttempts = 5;

/** It ended as it may. */
const checkEnd = ({ job, record, hits, fault }: About): void => {
  if (!isFinal(record.status) || record.unsettled) fault("is not over");
  const { asked, answered } = job.cancel;
  if (record.status === "cancelled" && !asked) fault("nobody asked for it to be cancelled");
  if (answered !== null && answered !== record.status) fault(`its cancel was answered with ${answered}`);
  if (record.status !== "failed") return;
  const hit = hits.find(({ attempt, running }) => attempt === record.attempt && running);
  if (record.failure_reason !== "instance_lost") fault("failed");
  else if (hit === undefined) fault("its instance was not lost");
  else if (!hit.spawned && record.attempt < maxAttempts) fault("could have run again: it had no agent");
  if (job.retryLost && record.attempt < maxAttempts) fault("should have run again");
};

/** No attempt was given to two agents, none was begun after the end, and nothing of it lives. */
const checkAgents = ({ record, notes, fault }: About, tally: InstanceTally): void => {
  const begun = notes.filter(({ pid }) => pid !== undefined);
  if (begun.length > 1) tally.runAgain += 1;
  for (const [attempt, agents] of Map.groupBy(begun, (note) => note.attempt)) {
    if (agents.length > 1) fault(`${agents.length} agents were given attempt ${attempt}`);
    if (attempt > record.attempt) fault(`an agent was given attempt ${attempt}`);
  }
  if (record.status === "succeeded" && !begun.some(({ attempt }) => attempt === record.attempt))
    fault("succeeded without an agent");
  const late = begun.filter(({ at = "" }) => Date.parse(at) > Date.parse(record.ended_at ?? "") + 1000);
  if (late.length > 0) fault("an agent was begun after its end");
};

/**
 * What its agents wrote is where the job says: in the pushed branch, or under the salvage ref of one that did not end well.
 * That of an earlier attempt may also be in another ref of the clone or still in a worktree.
 */
const checkWork = async (world: World, { job, record, notes, fault }: About): Promise<void> => {
  const clone = await world.clone();
  if (clone === null) return;
  const told = await toldPlace(world, { job, record }, clone);
  const anywhere = await places(world, record, clone);
  for (const { attempt, wrote, committed } of notes) {
    const own = attempt === record.attempt && told !== null;
    const where = own ? [told] : anywhere;
    if (wrote !== undefined && !(await anyOf(where, (place) => place.has(wrote))))
      fault(`${wrote} of attempt ${attempt} is not in ${where.map(({ name }) => name).join(", ")}`);
    if (committed !== undefined && !(await anyOf(where, (place) => place.contains(committed))))
      fault(`${committed} of attempt ${attempt} is not in ${where.map(({ name }) => name).join(", ")}`);
  }
};

type Place = {
  name: string;
  has: (file: string) => Promise<boolean>;
  contains: (commit: string) => Promise<boolean>;
};

const anyOf = async (where: Place[], test: (place: Place) => Promise<boolean>): Promise<boolean> => {
  for (const place of where) if (await test(place)) return true;
  return false;
};

const refPlace = (repository: string, ref: string): Place => ({
  name: ref,
  has: async (file) => {
    if (ref.startsWith("refs/service/salvage/")) return await isSaved(repository, ref, file);
    const names = await git(repository, "ls-tree", "--name-only", ref).catch(() => "");
    return names.split("\n").includes(file);
  },
  contains: (commit) =>
    git(repository, "merge-base", "--is-ancestor", commit, ref).then(
      () => true,
      () => false,
    ),
});

const directoryPlace = (path: string): Place => ({
  name: path,
  has: async (file) => existsSync(join(path, file)),
  contains: (commit) => refPlace(path, "HEAD").contains(commit),
});

/** Where the job says that its work is; null: nowhere, it did nothing that its end tells of. */
const toldPlace = async (
  world: World,
  { job, record }: Pick<About, "job" | "record">,
  clone: string,
): Promise<Place | null> => {
  if (record.status === "succeeded")
    return refPlace(job.pushes ? world.remote.path : clone, String(record.branch));
  // A run that ended before the cancel came to it may have pushed all it had.
  return record.salvage_ref === null ? null : refPlace(clone, record.salvage_ref);
};

const places = async (world: World, record: JobRecord, clone: string): Promise<Place[]> => {
  const refs = (await git(clone, "for-each-ref", "--format=%(refname)")).split("\n").filter(Boolean);
  const id = record.worktree_id ?? record.id;
  const short = record.id.slice(0, 8);
  const relevant = refs.filter((ref) =>
    [record.id, short, id, id.slice(0, 8)].some((part) => ref.includes(part)),
  );
  const directories = world.instances
    .map(({ home }) => join(home, ".service", "worktrees", id))
    .filter((path) => existsSync(path));
  return [
    ...relevant.map((ref) => refPlace(clone, ref)),
    ...(record.branch === null ? [] : [refPlace(world.remote.path, record.branch)]),
    ...directories.map(directoryPlace),
  ];
};

type Rest = {
  accepted: Accepted[];
  tally: InstanceTally;
  /** Instances look over their disks once a minute: whether that is waited for. */
  patient: boolean;
};

/** Nothing lies about: no process, no lock, no entry of a queue, no worktree that nobody knows. */
export const checkRest = async (world: World, { accepted, tally, patient }: Rest): Promise<void> => {
  const { faults } = tally;
  const ids = new Set(accepted.map(({ id }) => id));
  for (const { pid, job, attempt } of agentProcesses())
    if (ids.has(job)) faults.push(`process ${pid} of attempt ${attempt} of job ${job} lives`);
  // Not as long as other waits: a lock that nobody gives back expires.
  await until(async () => (await leftInStore(world)).length === 0, { seconds: 30 }).catch(async () => {
    faults.push(`left in the store: ${(await leftInStore(world)).join(", ")}`);
  });
  const counts = await world.store.counts();
  if (counts.queued + counts.running > 0) faults.push(`jobs are left: ${JSON.stringify(counts)}`);
  const unsettled = await world.store.unsettled();
  if (unsettled.length > 0) faults.push(`unsettled: ${JSON.stringify(unsettled)}`);
  await probe(world, faults);
  const clone = await world.clone();
  if (clone !== null) {
    const locks = (await readdir(clone, { recursive: true })).filter((name) => name.endsWith(".lock"));
    const fresh = locks.filter((lock) => !faults.some((fault) => fault.includes(lock)));
    if (fresh.length > 0) faults.push(`left in the clone: ${fresh.join(", ")}`);
  }
  if (!patient) return;
  await until(async () => (await strays(world)).length === 0, { seconds: 75 }).catch(async () => {
    faults.push(`worktrees that nobody answers for: ${(await strays(world)).join(", ")}`);
  });
};

/** Locks that are held and entries of queues that wait or are worked on, although nothing runs. */
const leftInStore = async ({ kv }: World): Promise<string[]> => {
  const keys = await kv.ask((client) => client.keys(`*${kv.prefix}:*`));
  const left = keys.filter((key) => /:lock(:|$)/.test(key));
  for (const key of keys.filter((each) => /:jobs(\.\w+)?:(active|wait)$/.test(each))) {
    const entries = await kv.ask((client) => client.lrange(key, 0, -1));
    left.push(...entries.map((entry) => `${key} ${entry}`));
  }
  return left;
};

/** Each instance does its work, in its own line too. */
const probe = async (world: World, faults: string[]): Promise<void> => {
  await Promise.all(
    world.living().map(async ({ name, service: { client } }) => {
      const { worktree } = await client.prepare_worktree({ repo_url: world.remote.path });
      const { job } = await client.run_task({
        task: "scenario: commit-nothing",
        worktree_id: worktree.worktree_id,
      });
      const ended = await until(
        async () => {
          const { job: now } = await client.get_job({ job_id: job.id });
          return isFinal(now.status) ? now : null;
        },
        { what: "the probe to end" },
      ).catch(() => null);
      if (ended?.status !== "succeeded" || ended.pod_name !== name)
        faults.push(
          `${name} does not work any more: ${ended?.status} on ${ended?.pod_name}, ${ended?.error}`,
        );
      await client.cleanup_worktrees({ paths: worktree.worktree_id });
    }),
  );
};

/** Worktrees on a disk that are no job's there and were not prepared there. */
const strays = async (world: World): Promise<string[]> => {
  const found: string[] = [];
  for (const { name, home, service } of world.living()) {
    const listed = (await service.client.list_worktrees()).worktrees;
    const prepared = new Set(listed.filter((each) => each.prepared).map(({ worktree_id }) => worktree_id));
    const names = await readdir(join(home, ".service", "worktrees"));
    for (const id of names.filter((each) => each !== ".owned" && each !== ".lock" && !prepared.has(each))) {
      const record = await world.record(id);
      if (record !== null && record.pod_name === name && record.worktree_removed_at === null) continue;
      const known = listed.some(({ worktree_id }) => worktree_id === id) ? "listed" : "not listed";
      found.push(`${name}/${id} (${known}, ${record?.status} on ${record?.pod_name})`);
    }
  }
  return found;
};
