import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import { createClockCheck, startRetention } from "./retention.ts";

const hour = 3_600_000;

test("a clock that was set is believed after an hour, or as soon as it is set back", () => {
  const clock = { wall: 0, monotonic: 0 };
  const warned: unknown[] = [];
  const log = { warn: (...said: unknown[]) => void warned.push(said) };
  const mayDelete = createClockCheck({ now: () => new Date(clock.wall), log }, () => clock.monotonic);
  const after = (ms: number, set = 0): boolean => {
    clock.monotonic += ms;
    clock.wall += ms + set;
    return mayDelete();
  };
  expect([after(1000), after(hour, 60_000)]).toEqual([true, true]);
  expect([after(1000, 90 * 24 * hour), after(hour - 1000), after(1000, -90 * 24 * hour)]).toEqual([
    false,
    false,
    true,
  ]);
  expect([after(1000, -hour), after(hour / 2, hour / 2), after(hour / 2), after(hour / 2)]).toEqual([
    false,
    false,
    false,
    true,
  ]);
  expect([after(1000), warned.length]).toEqual([true, 3]);
});

test("while the clock is in doubt no round is sure of it, and a round that fails is followed by the next", async () => {
  let ahead = 0;
  const rounds: boolean[] = [];
  const log = { ...createLog("silent", (text) => text), warn: () => undefined };
  const now = () => new Date(Date.now() + ahead);
  const retention = startRetention({ now, log }, 1, async (_, isSure) => {
    rounds.push(isSure);
    throw new Error("the store is away");
  });
  await until(() => rounds.at(-1) === true);
  ahead = 90 * 24 * hour;
  await until(() => rounds.at(-1) === false);
  ahead = 0;
  await until(() => rounds.at(-1) === true);
  await retention.stop();
});
