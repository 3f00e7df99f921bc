import { describe, expect, test } from "vitest";
import type { Overview } from "../contract/instance.ts";
import { unpainted } from "./paint.ts";
import { instanceTable, queueLines, profileEntry } from "./service.ts";

describe("the entry of a profile", () => {
  const code = {
    name: "code",
    description: "Autonomous coding worker",
    model: "sonnet",
    max_turns: 80,
    worktree: true,
    auto_pr: true,
    permission_mode: "default",
    budget_day_usd: null,
    source: "bundled",
    error: null,
  };

  test("has name, description, model, max_turns and auto_pr", () => {
    expect(profileEntry(code, { paint: unpainted }).split("\n")).toEqual([
      "code",
      "  description  Autonomous coding worker",
      "  model        sonnet",
      "  max_turns    80",
      "  auto_pr      true",
      "  source       bundled",
    ]);
  });

  test("that cannot be used has the reason instead", () => {
    expect(
      profileEntry({ ...code, error: "max_turns must be a number\nbut is x" }, { paint: unpainted }).split(
        "\n",
      ),
    ).toEqual([
      "code",
      "  description  Autonomous coding worker",
      "  error        max_turns must be a number but is x",
      "  source       bundled",
    ]);
  });
});

const started = Date.parse("2026-05-01T12:00:00.000Z");
const instance = {
  name: "build-1",
  version: "1.0.0",
  started_at: new Date(started).toISOString(),
  running: 1,
  max_parallel_jobs: 3,
  turns: 0,
  draining: false,
  address: null,
  agent_mode: false,
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
  limits: [],
  instances: [instance],
  ...changes,
});

const lines = (changes: Partial<Overview> = {}): string[] => queueLines(overview(changes));

test("the line of the queue says how many wait, how long the oldest has, and what each instance runs", () => {
  const queue = { waiting: 4, running: 1, oldest_wait_seconds: 125.4 };
  expect(lines({ queue, instances: [instance, other] })).toEqual([
    "4 waiting, the oldest for 2m 05s; 1 running: build-1 1 of 3, build-2 0 of 12 (draining)",
  ]);
  expect(lines()).toEqual(["0 waiting; 1 running: build-1 1 of 3"]);
  expect(lines({ instances: [] })).toEqual(["0 waiting; 1 running"]);
});

test("each usage limit that is reached has a line", () => {
  const limits = [{ credential: "9f86d081884c\u001b[2J", until: "2026-03-02T09:15:00.000Z", jobs: 2 }];
  expect(lines({ limits })[1]).toBe(
    "2 jobs parked until 2026-03-02T09:15:00.000Z or later: usage limit of the credential 9f86d081884c",
  );
});

test("what was lost with an instance is reported when there is any", () => {
  expect(lines({ lost: 1, recovered: 0 })[1]).toBe(
    "1 job failed with a lost instance, 0 queued again after one",
  );
  expect(lines({ lost: 0, recovered: 2 })[1]).toBe(
    "0 jobs failed with a lost instance, 2 queued again after one",
  );
});

test("the table has a line for each instance, which fits the terminal", () => {
  const now = started + 3 * 3_600_000;
  const both = overview({ instances: [instance, other] });
  expect(instanceTable(both, { paint: unpainted }, now).split("\n").slice(0, 3)).toEqual([
    "STATE     RUNNING  TURNS   UP  VERSION  NAME",
    "ready      1 of 3      0  3 h  1.0.0    build-1",
    "draining  0 of 12     12  3 h  1.0.0    build-2",
  ]);
  const long = overview({ instances: [{ ...instance, name: "a".repeat(60) }] });
  expect(instanceTable(long, { paint: unpainted, columns: 50 }, now).split("\n")[1]).toHaveLength(50);
});
