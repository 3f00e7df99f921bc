import { expect, test } from "vitest";
import type { Overview } from "../../contract/instance.ts";
import { instanceTable } from "./instance-table.ts";
import { unpainted } from "./paint.ts";
import { queueLines } from "./queue-lines.ts";

const started = Date.parse("2026-05-01T12:00:00.000Z");
const instance = {
  name: "build-1",
  version: "1.0.0",
  started_at: new Date(started).toISOString(),
  running: 1,
  max_parallel_jobs: 3,
  turns: 0,
  draining: false,
};
const other = {
  ...instance,
  name: "build-2\u001b[2J",
  running: 0,
  turns: 12,
  max_parallel_jobs: 12,
  draining: true,
};

const overview = (changes: Partial<Overview> = {}): Overview => ({
  queue: { waiting: 0, running: 1, oldest_wait_seconds: null },
  lost: 0,
  recovered: 0,
  instances: [instance],
  ...changes,
});

test("the line of the queue says how many wait, how long the oldest has, and what each instance runs", () => {
  const queue = { waiting: 4, running: 1, oldest_wait_seconds: 125.4 };
  expect(queueLines(overview({ queue, instances: [instance, other] }))).toEqual([
    "4 waiting, the oldest for 2m 05s; 1 running: build-1 1 of 3, build-2 0 of 12 (draining)",
  ]);
  expect(queueLines(overview())).toEqual(["0 waiting; 1 running: build-1 1 of 3"]);
  expect(queueLines(overview({ instances: [] }))).toEqual(["0 waiting; 1 running"]);
});

test("what was lost with an instance is told when there is any", () => {
  expect(queueLines(overview({ lost: 1, recovered: 0 }))[1]).toBe(
    "1 job failed with a lost instance, 0 queued again after one",
  );
  expect(queueLines(overview({ lost: 0, recovered: 2 }))[1]).toBe(
    "0 jobs failed with a lost instance, 2 queued again after one",
  );
});

test("the table has a line for each instance, which fits the terminal", () => {
  const now = started + 3 * 3_600_000;
  expect(instanceTable([instance, other], { paint: unpainted, columns: undefined, now }).split("\n")).toEqual(
    [
      "STATE     RUNNING  TURNS   UP  VERSION  NAME",
      "ready      1 of 3      0  3 h  1.0.0    build-1",
      "draining  0 of 12     12  3 h  1.0.0    build-2",
    ],
  );
  const long = { ...instance, name: "a".repeat(60) };
  expect(instanceTable([long], { paint: unpainted, columns: 50, now }).split("\n")[1]).toHaveLength(50);
});
