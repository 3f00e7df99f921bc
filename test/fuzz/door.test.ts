import { expect, test } from "vitest";
import { fuzzDoor } from "./door.ts";

const count = 1500;

test(`${count} hostile requests to the door of a sandbox reach no host but those that are allowed, and each gets an answer or a close`, async () => {
  const tally = await fuzzDoor({ count, seed: 1 });
  expect(tally.faults).toEqual([]);
  expect(tally.asked).toBe(count);
  // All kinds of requests are among them.
  expect(Object.keys(tally.answers)).toEqual(
    expect.arrayContaining(["200", "400", "403", "404", "407", "502"]),
  );
}, 180_000);
