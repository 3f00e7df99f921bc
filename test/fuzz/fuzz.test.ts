import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { fuzz } from "./rounds.ts";

const count = 1000;

test(`${count} spoilt requests over every door are answered as the OpenAPI document says, without holding up others and without a leak`, async () => {
  const tally = await fuzz({ directory: await temporaryDirectory(), count, seed: 1 });
  expect(tally.faults).toEqual([]);
  expect(tally.asked).toBe(count);
}, 180_000);
