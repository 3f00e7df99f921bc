import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { afterFile } from "../cleanup.ts";
import { openKv } from "../kv.ts";
import { startRedis } from "../redis.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

const slots = 3;

type Counts = { waiting: number; active: number; over: number };

const startDashboard = async (url: string, pod: string) => {
  const { client } = await openKv(url);
  const boards = ["jobs", `jobs.${pod}`].map((name) => {
    const queue = new Queue(name, { connection: client, prefix: "{service:q}", skipMetasUpdate: true });
    afterFile(() => queue.close());
    return new BullMQAdapter(queue);
  });
  return async (): Promise<Counts & { delayed: number; failed: number }> => {
    const counts = await Promise.all(boards.map((board) => board.getJobCounts()));
    const sum = (state: "waiting" | "delayed" | "active" | "completed" | "failed") =>
      counts.reduce((total, count) => total + (count[state] ?? 0), 0);
    return {
      waiting: sum("waiting") + sum("delayed"),
      delayed: sum("delayed"),
      active: sum("active"),
      over: sum("completed"),
      failed: sum("failed"),
    };
  };
};

const countsOf = async ({ client }: Service): Promise<Counts> => {
  const { jobs } = await client.list_jobs({ limit: 1000 });
  const count = (...statuses: string[]) => jobs.filter(({ status }) => statuses.includes(status)).length;
  return { waiting: count("queued"), active: count("running"), over: count("succeeded", "failed") };
};

const apart = (one: Counts, other: Counts): number =>
  Math.max(...(["waiting", "active", "over"] as const).map((what) => Math.abs(one[what] - other[what])));

// Its 20 jobs take a minute on an idle machine, and twice as long beside other tests.
test(
  "a dashboard for BullMQ shows of the queues what GET /jobs says, under load",
  { timeout: 240_000 },
  async () => {
    const { url } = await startRedis();
    const controls = await temporaryDirectory();
    const service = await startService({
      env: {
        SERVICE_AGENT_SANDBOX_READ: controls,
        KV_URL: url,
        SERVICE_MAX_PARALLEL_JOBS: String(slots),
        SERVICE_POD_NAME: "pod",
      },
    });
    const dashboard = await startDashboard(url, "pod");
    const { run, submit, ended } = asks(service);
    const first = await run({ task: "scenario: noop" });
    expect(await dashboard()).toMatchObject({ waiting: 0, active: 0, over: 1 });

    // Of those that go on with its session, in its worktree on this instance, the others have to wait for the first.
    const finish = join(controls, "finish");
    const session = { session_id: String(first.session_id) };
    const bound = [
      await submit({ task: `scenario: slow-deltas ${JSON.stringify({ until: finish })}`, ...session }),
    ];
    for (let n = 0; n < 4; n += 1) bound.push(await submit({ task: "scenario: noop", ...session }));
    await until(async () => (await dashboard()).delayed === 4, { what: "those of the session to rest" });
    expect(apart(await dashboard(), await countsOf(service))).toBe(0);

    const others = await Promise.all(
      Array.from({ length: 14 }, () => submit({ task: 'scenario: noop {"ms":200}' })),
    );
    const looks: { off: number; waiting: number; over: number }[] = [];
    do {
      const [shown, listed] = await Promise.all([dashboard(), countsOf(service)]);
      looks.push({ off: apart(shown, listed), ...shown });
      // What has just begun or ended is written to the record and to the queue one after the other.
      expect(apart(shown, listed)).toBeLessThanOrEqual(2 * slots);
      if (listed.over > 6) await writeFile(finish, "");
      await new Promise((resolve) => setTimeout(resolve, 150));
    } while ((looks.at(-1)?.over ?? 0) < 1 + bound.length + others.length);
    for (const { id } of [...bound, ...others])
      expect(await ended(id)).toMatchObject({ status: "succeeded" });

    const exact = looks.filter(({ off }) => off === 0);
    process.stdout.write(`the dashboard agreed ${exact.length} times of ${looks.length}\n`);
    expect(exact.length).toBeGreaterThan(looks.length / 4);
    expect(exact.some(({ waiting, over }) => waiting > 8 && over > 1)).toBe(true);
    await until(async () => apart(await dashboard(), await countsOf(service)) === 0);
    expect(await dashboard()).toEqual({ waiting: 0, delayed: 0, active: 0, over: 20, failed: 0 });
  },
);
