import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isFinal, type Job } from "../../src/contract/job.ts";
import type { Service } from "../service-process.ts";
import { until } from "../until.ts";
import { readJournal, runsIn } from "./store-journal.ts";
import { submitOnce } from "./store-submit.ts";
import { createStoreWorld, nth, startPromptRedis } from "./store-world.ts";

type Options = {
  directory: string;
  /** How long the store is away, seconds. */
  seconds: number;
};

export type Tally = {
  outageSeconds: number;
  jobs: number;
  /** Jobs whose agent did its last work while the store was away. */
  endedMeanwhile: number;
  /** Jobs whose agent went on beyond it. */
  endedAfter: number;
  /** Jobs that only waited. */
  waited: number;
  succeeded: number;
  lost: number;
  pushed: number;
  /** How requests were answered meanwhile, by what was asked. */
  answered: Record<string, string>;
  slowestAnswerMs: number;
  faults: string[];
};

/**
 * Takes the store away from two instances for longer than their leases while agents are at work: some end meanwhile, some
 * later, some have not begun. All are to end well, once, and none is to count as lost.
 */
export const storeOutage = async ({ directory, seconds }: Options): Promise<Tally> => {
  const redis = await startPromptRedis();
  const { journal, controls, remote, services } = await createStoreWorld({
    kvUrl: redis.url,
    directory,
    names: ["i1", "i2"],
  });
  const tally: Tally = {
    outageSeconds: seconds,
    jobs: 0,
    endedMeanwhile: 0,
    endedAfter: 0,
    waited: 0,
    succeeded: 0,
    lost: 0,
    pushed: 0,
    answered: {},
    slowestAnswerMs: 0,
    faults: [],
  };
  const ids: string[] = [];
  const submit = async (task: string, repo_url = ""): Promise<void> => {
    const { job } = await nth(services, ids.length).client.run_task({ task, repo_url });
    ids.push(job.id);
  };
  // Six slots: two jobs that commit and end meanwhile, two that end without a word, two that go on beyond; two wait.
  const [gone, back] = [join(controls, "store-is-gone"), join(controls, "store-is-back")];
  for (const own of [1, 2])
    await submit(`scenario: paced {"until": "${gone}", "ms": 900, "n": ${own}}`, remote.path);
  for (let n = 0; n < 2; n += 1) await submit(`scenario: noop {"begins": "${gone}"}`);
  for (let n = 0; n < 2; n += 1) await submit(`scenario: paced {"until": "${back}", "ms": 300}`);
  await until(async () => (await runsIn(journal)).size === 6, { what: "six agents to be at work" });
  const hasWritten = async (id = ""): Promise<boolean> =>
    (await readJournal(journal)).some(({ job, wrote }) => job === id && wrote !== undefined);
  await until(async () => (await hasWritten(ids[0])) && hasWritten(ids[1]), { what: "work to be pushed" });
  for (let n = 0; n < 2; n += 1) await submit("scenario: noop");
  tally.jobs = ids.length;

  const began = performance.now();
  await redis.kill();
  await writeFile(gone, "");
  for (const service of services) await askMeanwhile(service, ids[0] ?? "", tally);
  await delay(seconds * 1000 - (performance.now() - began));
  await until(async () => (await spooledIn(directory)).length === 4, { what: "four outcomes to be kept" });
  const working = new Set((await readJournal(journal)).map(({ job }) => job));
  await redis.restart();
  const since = new Date();
  await writeFile(back, "");

  for (const [at, id] of ids.entries()) {
    const job = await untilEnded(nth(services, at + 1), id);
    note(job, { since, worked: working.has(id), tally });
  }
  const runs = await runsIn(journal);
  for (const id of ids) if (runs.get(id) !== 1) tally.faults.push(`${id} was run ${runs.get(id) ?? 0} times`);
  tally.pushed = (await remote.branches()).length - 1;
  await Promise.all(services.map((service) => service.kill()));
  await redis.kill();
  return tally;
};

const spooledIn = async (directory: string): Promise<string[]> =>
  (await readdir(directory, { recursive: true })).filter((path) => /\/spool\/[^/]+\.json$/.test(path));

const untilEnded = (service: Service, id: string): Promise<Job> =>
  until(
    async () => {
      const { job } = await service.client.get_job({ job_id: id });
      return isFinal(job.status) ? job : null;
    },
    { seconds: 90, what: `job ${id} to end` },
  );

const note = (job: Job, { since, worked, tally }: { since: Date; worked: boolean; tally: Tally }): void => {
  if (job.status === "succeeded" && job.attempt === 1) tally.succeeded += 1;
  else tally.faults.push(`${job.id}: ${job.status} after attempt ${job.attempt}: ${job.error}`);
  if (job.failure_reason === "instance_lost") tally.lost += 1;
  const meanwhile = job.ended_at !== null && new Date(job.ended_at) < since;
  if (!worked) tally.waited += 1;
  else if (meanwhile) tally.endedMeanwhile += 1;
  else tally.endedAfter += 1;
};

/** Everything that needs the store is refused clearly, and what does not is answered. */
const askMeanwhile = async ({ url }: Service, id: string, tally: Tally): Promise<void> => {
  const asked: [string, string, string][] = [
    ["GET", `/jobs/${id}`, "503 store_unavailable"],
    ["GET", "/jobs", "503 store_unavailable"],
    ["DELETE", `/jobs/${id}`, "503 store_unavailable"],
    ["GET", "/ready", "503"],
    ["GET", "/health", "200"],
  ];
  for (const [method, path, expected] of asked) {
    const began = performance.now();
    const response = await fetch(`${url}${path}`, { method, signal: AbortSignal.timeout(30_000) });
    const { code } = (await response.json()) as { code?: string };
    const answer = `${response.status}${code === undefined ? "" : ` ${code}`}`;
    tally.answered[`${method} ${path.replace(id, "ID")}`] = answer;
    tally.slowestAnswerMs = Math.max(tally.slowestAnswerMs, Math.round(performance.now() - began));
    if (answer !== expected)
      tally.faults.push(`${method} ${path} was answered ${answer} while the store was away`);
    if (code !== undefined && response.headers.get("retry-after") === null)
      tally.faults.push(`${method} ${path} was refused without Retry-After`);
  }
  const { status, code, retryAfter } = await submitOnce(url, { task: "scenario: noop" });
  tally.answered["POST /jobs"] = `${status} ${code}`;
  if (`${status} ${code}` !== "503 store_unavailable" || retryAfter === null)
    tally.faults.push(`a submission was answered ${status} ${code} while the store was away`);
};
