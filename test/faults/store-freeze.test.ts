import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { storeRounds } from "./store-rounds.ts";

const rounds = 1;

test("when the store does not answer for 5 s under load no acknowledged job is lost, cut or run twice, and refusals are clear and soon", async () => {
  const tally = await storeRounds({
    directory: await temporaryDirectory(),
    rounds,
    random: Math.random,
    how: "freeze",
  });
  process.stdout.write(`store frozen: ${JSON.stringify(tally)}\n`);
  expect(tally.faults).toEqual([]);
  expect(tally).toMatchObject({ outages: rounds, succeeded: tally.acknowledged });
  // What met nothing would prove nothing.
  expect(tally.refused["503 store_unavailable"]).toBeGreaterThan(0);
}, 240_000);
