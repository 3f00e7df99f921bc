import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import { sampleBegin, sampleJob } from "../../test/cli/sample-job.ts";
import { unpainted } from "./paint.ts";
import { jobTable } from "./job-table.ts";

const now = sampleBegin + 3 * 3_600_000;

describe("the table of jobs", () => {
  const jobs = [
    sampleJob({ status: "running", task: "日本語のテキストは幅が広いので切り詰める必要があります" }),
    sampleJob({
      status: "succeeded",
      profile: "my-own-profile",
      repo_url: "git@github.com:acme/app.git",
      started_at: new Date(sampleBegin).toISOString(),
      ended_at: new Date(sampleBegin + 90_000).toISOString(),
      cost_usd: 1.234,
      task: "Fix\nit\u001b[2J\tnow",
    }),
    sampleJob({ repo_url: "", created_at: new Date(now - 12 * 60_000).toISOString() }),
  ];
  const lines = (columns?: number): string[] =>
    jobTable(jobs, { paint: unpainted, columns, now }).split("\n");

  test("has short ids, the documented columns, aligned, on one line each", () => {
    expect(lines()).toEqual([
      "ID        STATUS     REPOSITORY  PROFILE            AGE  DURATION   COST  TASK",
      "6f1c1a52  running    acme/app    code               3 h         –      –  日本語のテキストは幅が広いので切り詰める必要があります",
      "6f1c1a52  succeeded  acme/app    my-own-profile     3 h    1m 30s  $1.23  Fix it now",
      "6f1c1a52  queued     –           code            12 min         –      –  Fix the failing date test",
    ]);
  });

  test("fits the terminal, wide characters counted; columns go in the documented order, id and task stay", () => {
    const headings = [100, 90, 80, 70, 60, 50].map((columns) => {
      for (const line of lines(columns)) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
      return lines(columns)[0]?.split(/ +/).join(" ");
    });
    expect(headings).toEqual([
      "ID STATUS REPOSITORY PROFILE AGE DURATION COST TASK",
      "ID STATUS REPOSITORY AGE DURATION COST TASK",
      "ID STATUS REPOSITORY AGE DURATION TASK",
      "ID STATUS REPOSITORY AGE TASK",
      "ID STATUS AGE TASK",
      "ID STATUS TASK",
    ]);
    for (const line of lines(20).slice(1)) expect(line).toMatch(/^6f1c1a52 /);
  });

  test("colours the status and nothing else", () => {
    const table = jobTable([sampleJob({ status: "failed", task: "failed" })], {
      paint: (format, text) => `<${String(format)}>${text}</>`,
      now,
    });
    expect(table).toMatch(/^6f1c1a52 {2}<red>failed<\/> [^<]* failed$/m);
  });
});
