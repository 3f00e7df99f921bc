import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { post, saying } from "../chat/asking.ts";
import { createCluster } from "../cluster.ts";
import { startRedis } from "../redis.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

type Origin = { session_id: string; kind: string; job_id: string | null };

const linesOf = async <Line>(path: string): Promise<Line[]> =>
  (await readFile(path, "utf8"))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
const originsOf = (root: string): Promise<Origin[]> => linesOf(join(root, "origins.jsonl"));
const keptBy = async (root: string): Promise<string[]> => await readdir(join(root, "plans")).catch(() => []);

test("a job whose profile says retry_lost is run again after a crash, in its session; no plan is lost, and the session is noted once", async () => {
  const home = await temporaryDirectory();
  const root = join(home, ".service");
  await mkdir(join(root, "profiles"), { recursive: true });
  await writeFile(join(root, "profiles", "stubborn.yml"), "extends: code\nretry_lost: true\n");
  const first = await startService({ home });
  expect(first.output.stderr).toContain(`"transcripts":"${root}"`);
  const task = 'scenario: paced {"steps": 8, "ms": 150, "own": true, "plan": "calm-otter"}';
  const { id } = await asks(first).submit({ task, profile: "stubborn" });
  const { session_id } = await asks(first).speaking(id);
  expect(await originsOf(root)).toMatchObject([{ session_id, kind: "job", job_id: id }]);
  await first.kill();
  const again = await startService({ home, env: { SERVICE_JOB_TTL: "3600" } });
  const job = await asks(again).ended(id);
  expect(job).toMatchObject({ attempt: 2, session_id, status: "succeeded", error: null });
  const starts = job.stages.filter(({ stage }) => stage === "agent_started");
  expect(starts.map(({ attempt }) => attempt)).toContain(2);
  expect(await originsOf(root)).toHaveLength(1);
  expect(await keptBy(root)).toEqual(["calm-otter.md"]);
  expect(await linesOf(join(root, "history.jsonl"))).toHaveLength(1);
});

test.concurrent("a conversation is noted once, whatever the number of its turns and processes", async () => {
  const service = await startService({ env: { AGENT_MODE: "true", AGENT_MODE_KEEP_ALIVE: "0" } });
  const root = join(service.home, ".service");
  const headers = { "x-conversation-id": "kept" };
  const task = 'scenario: chat {"steps": [{"text": "so"}], "plan": "calm-otter"}';
  for (let turn = 0; turn < 2; turn += 1) {
    expect((await post(service, saying(task), { headers })).status).toBe(200);
    await until(async () => (await keptBy(root)).length > 0, { what: "the process's plan to be kept" });
  }
  const origins = await originsOf(root);
  expect(origins).toMatchObject([{ kind: "chat", job_id: null }]);
});

test.concurrent("two instances share one home, and both list the jobs of a session", async () => {
  const redis = await startRedis();
  const cluster = await createCluster({ kvUrl: redis.url, env: { SERVICE_JOB_TTL: "5" } });
  const services = await Promise.all(["a", "b"].map((name) => cluster.start(name)));
  const task = 'scenario: noop {"plan": "calm-otter"}';
  const jobs = await Promise.all(
    services.map(async (service, n) => asks(service).run({ task: `${n} ${task}` })),
  );
  for (const { id, session_id } of jobs)
    for (const { client } of services)
      expect((await client.list_jobs({ session_id: String(session_id) })).jobs.map((job) => job.id)).toEqual([
        id,
      ]);
  const history = join(cluster.shared, "history.jsonl");
  await until(async () => (await linesOf(history).catch(() => [])).length >= 2, {
    what: "both to be removed",
  });
  expect(await keptBy(cluster.shared)).toHaveLength(2);
  expect(await linesOf(history)).toHaveLength(2);
  const noted = (await originsOf(cluster.shared)).map(({ job_id }) => job_id);
  expect(noted).toHaveLength(2);
  expect(new Set(noted)).toEqual(new Set(jobs.map(({ id }) => id)));
});
