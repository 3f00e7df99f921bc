import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { idempotencyRounds } from "./idempotency-rounds.ts";

/** As many as there is time for: `npm run crash -- 2000 idempotency` does more of them. */
const jobs = 40;
const instances = 3;

test(`${jobs} jobs, each submitted to two of ${instances} instances in the same moment with one Idempotency-Key, become ${jobs} jobs that run once`, async () => {
  const tally = await idempotencyRounds({ directory: await temporaryDirectory(), rounds: jobs, instances });
  expect(tally.faults).toEqual([]);
  expect(tally).toMatchObject({ submissions: 2 * jobs, jobs, runs: jobs, succeeded: jobs });
}, 180_000);
