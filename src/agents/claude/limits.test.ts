import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { watchLimits, type Limit, type LimitSeconds, type Limits } from "./limits.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const all: LimitSeconds = { wall: 1000, begin: 0, first_output: 300, idle: 1200, result_grace: 30 };

/** Which limit ends the turn, after so many seconds from the last of what happens. */
const endOf = (happens: (limits: Limits) => void, over: Partial<LimitSeconds> = {}): string => {
  let ended: Limit | null = null;
  using limits = watchLimits({ ...all, wall: 5000, ...over }, (limit) => (ended ??= limit));
  happens(limits);
  for (let second = 0; ended === null; second += 1) {
    vi.advanceTimersByTime(1000);
    if (ended !== null) return `${String(ended)} ${second + 1}`;
  }
  return "";
};

const own = { begun: false, answering: false };
const begun = { begun: true, answering: false };
const answering = { begun: true, answering: true };

test("each state has its limit of silence; the wall clock ends those that have none", () => {
  expect(endOf(() => undefined)).toBe("wall 5000");
  expect(endOf((limits) => limits.promptGiven())).toBe("first_output 300");
  const states: [string, (limits: Limits) => void][] = [
    ["first_output 300", (limits) => limits.line(begun)],
    ["idle 1200", (limits) => limits.line(answering)],
    ["wall 5000", (limits) => limits.rest(true)],
    ["idle 1200", (limits) => [true, false].forEach(limits.rest)],
    ["result_grace 30", (limits) => limits.result(true)],
  ];
  for (const [end, enters] of states)
    expect(endOf((limits) => [limits.promptGiven, enters].forEach((happens) => happens(limits)))).toBe(end);
});

test("lines that are no answer of the model never put off the limit of the first output", () => {
  const end = endOf((limits) => {
    limits.promptGiven();
    for (let second = 0; second < 299; second += 1) {
      vi.advanceTimersByTime(1000);
      limits.line(second < 100 ? own : begun);
    }
  });
  expect(end).toBe("first_output 1");
});

test("a process that has answered before begins its turn soon, then the model has its time", () => {
  const later = { begin: 10 };
  expect(endOf((limits) => (limits.promptGiven(), limits.line(own)), later)).toBe("begin 10");
  expect(endOf((limits) => (limits.promptGiven(), limits.line(begun)), later)).toBe("first_output 300");
  expect(endOf((limits) => (limits.promptGiven(), limits.line(answering)), later)).toBe("idle 1200");
});

test("each line puts off the idle limit; only a result of later work the grace; 0 is no limit", () => {
  const end = (last: (limits: Limits) => void, over?: Partial<LimitSeconds>): string =>
    endOf((limits) => {
      limits.promptGiven();
      limits.line(answering);
      vi.advanceTimersByTime(20_000);
      last(limits);
    }, over);
  expect(end((limits) => limits.line(own))).toBe("idle 1200");
  const results = (worked: boolean) => (limits: Limits) => {
    limits.result(true);
    vi.advanceTimersByTime(20_000);
    limits.result(worked);
    limits.rest(false);
  };
  expect(end(results(false))).toBe("result_grace 10");
  expect(end(results(true))).toBe("result_grace 30");
  expect(end(() => undefined, { idle: 0 })).toBe("wall 4980");
});
