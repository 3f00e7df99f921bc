import { expect, test } from "vitest";
import { createRetries } from "./retries.ts";

test("failures are retried after a pause that doubles up to five minutes, until one attempt succeeds", () => {
  const retries = createRetries();
  let now = 0;
  const pauses: number[] = [];
  for (let round = 0; round < 12; round += 1) {
    expect(retries.isDue("a", now)).toBe(true);
    retries.failed("a", now);
    let pause = 0;
    while (!retries.isDue("a", now + pause)) pause += 500;
    pauses.push(pause);
    now += pause;
  }
  expect(pauses.slice(0, 4)).toEqual([1000, 2000, 4000, 8000]);
  expect(pauses.at(-1)).toBe(300_000);
  expect(retries.isDue("b", 0)).toBe(true);
  retries.succeeded("a");
  retries.failed("a", now);
  expect([retries.isDue("a", now + 999), retries.isDue("a", now + 1000)]).toEqual([false, true]);
});
