import { describe, expect, test } from "vitest";
import { sampleBegin, sampleJob } from "../../../test/cli/sample-job.ts";
import { unpainted } from "../text/paint.ts";
import { width } from "../text/width.ts";
import { jobTable } from "./jobs.ts";
import { profileEntry } from "./profiles.ts";

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
      expect(width(line)).toBeLessThanOrEqual(80);
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
