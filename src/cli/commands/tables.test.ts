import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import { sampleBegin, sampleJob } from "../../../test/cli/sample-job.ts";
import type { Overview } from "../../contract/instance.ts";
import { unpainted } from "../print.ts";
import { instanceTable, queueLines, profileEntry, jobTable } from "./lists.ts";

const now = sampleBegin + 3 * 3_600_000;

describe("the table of jobs", () => {
  const jobs = [
    sampleJob({ status: "running", task: "日本語のテキストは幅が広いので切り詰める必要があります" }),
    sampleJob({ profile: "my-own-profile", task: "Fix\nit\u001b[2J\tnow" }),
  ];

  test("has the four documented columns, aligned, on one line each", () => {
    expect(jobTable(jobs, { paint: unpainted, columns: undefined, now }).split("\n")).toEqual([
      "ID                                    STATUS   PROFILE         TASK",
      "6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d  running  code            日本語のテキストは幅が広いので切り詰める必要があります",
      "6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d  queued   my-own-profile  Fix it now",
    ]);
  });

  test("fits the terminal, wide characters counted; ids stay whole on a narrow one", () => {
    for (const line of jobTable(jobs, { paint: unpainted, columns: 80, now }).split("\n")) {
      expect(stringWidth(line)).toBeLessThanOrEqual(80);
    }
    const narrow = jobTable(jobs, { paint: unpainted, columns: 20, now });
    expect(narrow.match(/6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d/g)).toHaveLength(2);
  });

  test("has ages too on a terminal with room for them", () => {
    const list = [sampleJob(), sampleJob({ created_at: new Date(now - 12 * 60_000).toISOString() })];
    const table = (columns: number): string[] =>
      jobTable(list, { paint: unpainted, columns, now }).split("\n");
    expect(table(100)).toEqual([
      "ID                                    STATUS  PROFILE     AGE  TASK",
      "6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d  queued  code        3 h  Fix the failing date test",
      "6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d  queued  code     12 min  Fix the failing date test",
    ]);
    expect(table(99)[0]).not.toContain("AGE");
  });

  test("colours the status and nothing else", () => {
    const table = jobTable([sampleJob({ status: "failed", task: "failed" })], {
      paint: (format, text) => `<${String(format)}>${text}</>`,
      columns: undefined,
      now,
    });
    expect(table).toMatch(/3d {2}<red>failed<\/> {2}code {5}failed$/);
  });
});

describe("the entry of a profile", () => {
  const code = {
    name: "code",
    description: "Autonomous coding worker",
    model: "sonnet",
    max_turns: 80,
    worktree: true,
    auto_pr: true,
    permission_mode: "default",
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

const lines = (changes: Partial<Overview> = {}): string[] =>
  queueLines(overview(changes), { paint: unpainted });

test("the line of the queue says how many wait, how long the oldest has, and what each instance runs", () => {
  const queue = { waiting: 4, running: 1, oldest_wait_seconds: 125.4 };
  expect(lines({ queue, instances: [instance, other] })).toEqual([
    "4 waiting, the oldest for 2m 05s; 1 running: build-1 1 of 3, build-2 0 of 12 (draining)",
  ]);
  expect(lines()).toEqual(["0 waiting; 1 running: build-1 1 of 3"]);
  expect(lines({ instances: [] })).toEqual(["0 waiting; 1 running"]);
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
  expect(instanceTable([instance, other], { paint: unpainted }, now)).toEqual([
    "STATE     RUNNING  TURNS   UP  VERSION  NAME",
    "ready      1 of 3      0  3 h  1.0.0    build-1",
    "draining  0 of 12     12  3 h  1.0.0    build-2",
  ]);
  const long = { ...instance, name: "a".repeat(60) };
  expect(instanceTable([long], { paint: unpainted, columns: 50 }, now)[1]).toHaveLength(50);
});
