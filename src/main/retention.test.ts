import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import { createClockCheck } from "./clock-check.ts";
import { startRetention } from "./retention.ts";

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

test("while the clock is in doubt nothing is due", async () => {
  let ahead = 0;
  const asked: number[] = [];
  const warned: unknown[] = [];
  const retention = startRetention({
    store: {
      due: async (_what: string, at: number) => {
        asked.push(at);
        return [];
      },
    },
    worktrees: { applyRetention: async () => undefined },
    worktreeTtl: 0,
    now: () => new Date(Date.now() + ahead),
    log: { ...createLog("silent", (text) => text), warn: (...said: unknown[]) => void warned.push(said) },
  } as unknown as Parameters<typeof startRetention>[0]);
  await until(() => asked.length > 0);
  ahead = 90 * 24 * hour;
  await until(() => warned.length > 0);
  expect(asked.filter((at) => at > Date.now() + hour)).toEqual([]);
  ahead = 0;
  const before = asked.length;
  await until(() => asked.length > before);
  await retention.stop();
});
