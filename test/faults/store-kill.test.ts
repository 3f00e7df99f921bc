import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { storeRounds } from "./store-rounds.ts";

const kills = 3;

test(`when the store is killed ${kills} times under load no acknowledged job is lost, cut or run twice, and refusals are clear and soon`, async () => {
  const tally = await storeRounds({
    directory: await temporaryDirectory(),
    rounds: kills,
    random: Math.random,
  });
  process.stdout.write(`store killed: ${JSON.stringify(tally)}\n`);
  expect(tally.faults).toEqual([]);
  expect(tally).toMatchObject({ outages: kills, succeeded: tally.acknowledged });
  // Kills that met nothing would prove nothing.
  expect(tally.refused["503 store_unavailable"]).toBeGreaterThan(0);
}, 240_000);
