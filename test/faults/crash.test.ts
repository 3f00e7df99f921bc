import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { crashRounds } from "./crash-rounds.ts";

const rounds = 2;

test(`after each of ${rounds} kills at random moments every job is settled in time, once, with its work and without its agent`, async () => {
  const tally = await crashRounds({ directory: await temporaryDirectory(), rounds, random: Math.random });
  expect(tally.faults).toEqual([]);
  expect(tally).toMatchObject({ kills: rounds, jobs: rounds * 3 });
  // A run in which nothing was hit would prove nothing.
  expect(tally.lost + tally.requeued).toBeGreaterThan(0);
}, 180_000);
