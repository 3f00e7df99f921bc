import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { createCluster } from "../cluster.ts";
import { startRedis } from "../redis.ts";
import { until } from "../until.ts";

/** Loaded before the service, so that its clock is so many ms ahead of this machine's. */
const shifted = (ms: number): string => `
const Real = Date;
globalThis.Date = class Date extends Real {
  constructor(...given) {
    super(...(given.length === 0 ? [Real.now() + ${ms}] : given));
  }
  static now() {
    return Real.now() + ${ms};
  }
};`;

test("an instance whose clock is two days fast expires and deletes nobody's jobs, and says so", async () => {
  const cluster = await createCluster({ kvUrl: (await startRedis()).url });
  const right = await cluster.start("right");
  const { id } = await asks(right).run({ task: "scenario: noop" });
  const clock = join(cluster.root, "clock.mjs");
  await writeFile(clock, shifted(2 * 86_400_000));
  const wrong = await cluster.start("wrong", { env: { NODE_OPTIONS: `--import=${clock}` } });
  await until(() => wrong.output.stderr.includes("clock of this machine"));
  const own = await wrong.client.run_task({ task: "scenario: noop" });
  expect(Math.abs(Date.parse(own.job.created_at) - Date.now())).toBeLessThan(60_000);
  expect(await asks(wrong).ended(own.job.id)).toMatchObject({ status: "succeeded" });
  // Its first round of tidying has been made then.
  await wrong.stop();
  expect(await asks(right).get(id)).toMatchObject({ status: "succeeded" });
}, 180_000);
