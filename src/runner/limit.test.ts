import { expect, test } from "vitest";
import { at, sampleRecord } from "../../test/ports/job-record-sample.ts";
import type { JobRecord } from "../store/job-record.ts";
import { nextAfter } from "./limit.ts";

type Given = Parameters<typeof nextAfter>[0];
type Over = Partial<Omit<Given, "agent">> & { agent?: Partial<Given["agent"]> };

const settings = {
  limitJitter: 60,
  limitPauses: [900, 1800, 3600],
  limitWaits: 5,
  limitTtl: 86_400,
  overloadRetries: 3,
  overloadPauses: [5, 20, 60],
};

const after = ({ agent, ...over }: Over) =>
  nextAfter({
    record: sampleRecord(),
    agent: {
      ok: false,
      reason: "rate_limited",
      retryable: true,
      apiStatus: 429,
      limitResetsAt: null,
      ...agent,
    },
    tried: { overloads: 0, usesKey: false },
    onLimit: "wait",
    credential: { digest: "one", hasOtherKey: true, usualAtLimit: "fail" },
    settings,
    now: new Date(at(0)),
    random: 0.5,
    secondsLeft: Infinity,
    ...over,
  });

/** Seconds until it goes on, by the number of waits and the reset; null: it is not parked. */
const waitOf = (over: Over): number | null => {
  const next = after(over);
  if (next.kind !== "park") return null;
  return (Date.parse(next.patch.waiting?.until ?? "") - Date.parse(at(0))) / 1000;
};
const resetting = (seconds: number): Over => ({ agent: { limitResetsAt: at(seconds) } });
const waited = (waits: number, since = at(0)): { record: JobRecord } => ({
  record: sampleRecord({ limit: { credential: "one", waits, since } }),
});

test("a limit parks the job until its reset and a part of a tenth of the wait, at least 1 s, at most SERVICE_LIMIT_JITTER", () => {
  expect([0, 0.5, 1].map((random) => waitOf({ ...resetting(300), random }))).toEqual([301, 315, 330]);
  expect([0, 1].map((random) => waitOf({ ...resetting(4), random }))).toEqual([5, 5]);
  expect([0, 1].map((random) => waitOf({ ...resetting(7200), random }))).toEqual([7201, 7260]);
});

test("without a reset time, or with one that is over, it waits 15, 30 and then 60 minutes", () => {
  const waits = [0, 1, 2, 3].map((count) => waitOf({ ...waited(count), random: 0 }));
  expect(waits).toEqual([901, 1801, 3601, 3601]);
  expect(waitOf({ ...resetting(-5), random: 0 })).toBe(901);
});

test("it is parked so often, and not beyond the time after the first limit", () => {
  expect(after({ ...waited(4), ...resetting(60) })).toMatchObject({
    kind: "park",
    patch: {
      limit: { credential: "one", waits: 5, since: at(0) },
      waiting: { kind: "limit", id: "limit_5" },
    },
  });
  expect(after({ ...waited(5), ...resetting(60) })).toEqual({ kind: "end" });
  expect(after({ ...waited(1, at(-86_000)), ...resetting(60) })).toMatchObject({ kind: "park" });
  expect(after({ ...waited(1, at(-86_000)), ...resetting(400) })).toEqual({ kind: "end" });
  // It was only held before: its time begins now.
  expect(after({ ...waited(0, at(-86_000)), ...resetting(400) })).toMatchObject({ kind: "park" });
});

test("on_limit decides: fail ends the job, api_key takes the other key once; without it counts what is usual", () => {
  expect(after({ onLimit: "fail", ...resetting(60) })).toEqual({ kind: "end" });
  expect(after({ onLimit: null, ...resetting(60) })).toEqual({ kind: "end" });
  const usual = { digest: "one", hasOtherKey: false, usualAtLimit: "wait" as const };
  expect(after({ onLimit: null, credential: usual, ...resetting(60) })).toMatchObject({ kind: "park" });
  expect(after({ onLimit: "api_key" })).toMatchObject({
    kind: "again",
    pauseSeconds: 0,
    tried: { usesKey: true },
  });
  expect(after({ onLimit: "api_key", tried: { overloads: 0, usesKey: true } })).toEqual({ kind: "end" });
  expect(after({ onLimit: "api_key", credential: usual })).toEqual({ kind: "end" });
});

test("an overload is retried after 5, 20 and 60 s; a refusal that will not pass is not", () => {
  const overloaded = { reason: "api_error", apiStatus: 529 } as const;
  const pauses = [0, 1, 2, 3].map((overloads) => {
    const next = after({ agent: overloaded, tried: { overloads, usesKey: false } });
    return next.kind === "again" ? [next.pauseSeconds, next.tried.overloads] : null;
  });
  expect(pauses).toEqual([[5, 1], [20, 2], [60, 3], null]);
  expect(after({ agent: { ...overloaded, apiStatus: null } })).toMatchObject({
    kind: "again",
    warning: "The model did not answer; the agent went on after 5 s, try 1 of 3",
  });
  const soon = [5, 5.1].map((secondsLeft) => after({ agent: overloaded, secondsLeft }).kind);
  expect(soon).toEqual(["end", "again"]);
  expect(after({ agent: { reason: "api_error", apiStatus: 400, retryable: false } })).toEqual({
    kind: "end",
  });
  expect(after({ agent: { reason: "auth", apiStatus: 401, retryable: false } })).toEqual({ kind: "end" });
});
