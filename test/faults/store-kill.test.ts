import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { storeRounds } from "./store-rounds.ts";

const hows = ["kill", "freeze"] as const;

test("when the store is killed, and does not answer for 5 s, under load, no acknowledged job is lost, cut or run twice, and refusals are clear and soon", async () => {
  const directory = await temporaryDirectory();
  const tally = await storeRounds({ directory, rounds: hows.length, random: Math.random, hows });
  expect(tally.faults).toEqual([]);
  expect(tally).toMatchObject({ outages: hows.length, succeeded: tally.acknowledged });
  // What met nothing would prove nothing.
  expect(tally.refused["503 store_unavailable"]).toBeGreaterThan(0);
}, 240_000);
