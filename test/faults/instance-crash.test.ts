import { expect, test } from "vitest";
import { startRedis } from "../redis.ts";
import { temporaryDirectory } from "../temporary.ts";
import { instanceRounds } from "./instance-rounds.ts";
import { newTally } from "./instance-tally.ts";

/** Three kills may meet no window: instance-windows.test.ts tries each window. */
const kills = 3;

test(`however ${kills} kills meet instances that share a store, every job ends by the rules, once for each attempt, with its work and without its agents`, async () => {
  const { url } = await startRedis();
  const tally = newTally();
  await instanceRounds({
    directory: await temporaryDirectory(),
    kvUrl: url,
    prefix: "crash",
    kills,
    // The program measures: `npm run crash -- 300 instances`.
    limits: false,
    env: { SERVICE_INSTANCE_LEASE: "2", SERVICE_WORKTREE_TTL: "2" },
    random: Math.random,
    tally,
  });
  expect(tally.faults).toEqual([]);
  expect(tally.kills).toBeGreaterThanOrEqual(kills);
  // A run in which nothing was hit would prove nothing.
  expect(Object.keys(tally.hits)).not.toEqual([]);
}, 240_000);
