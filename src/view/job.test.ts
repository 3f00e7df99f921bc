import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import type { Job, StageName } from "../contract/job.ts";
import { sampleBegin, sampleJob } from "../../test/cli/sample-job.ts";
import { unpainted } from "./paint.ts";
import { jobPage, jobSummary, jobTable } from "./job.ts";
import { timeLines } from "./stages.ts";

const page = (changes: Parameters<typeof sampleJob>[0] = {}): string =>
  jobPage(sampleJob(changes), { paint: unpainted, now: sampleBegin + 60_000 });

const at = (seconds: number): string => new Date(sampleBegin + seconds * 1000).toISOString();

describe("the page of a job", () => {
  test("has each documented field that has a value, and no line for those without", () => {
    const text = page({
      status: "failed",
      failure_reason: "agent_exit",
      retryable: true,
      error: "first line\nsecond line",
      exit_code: 3,
      pr_url: "https://github.com/acme/app/pull/7",
      started_at: at(1),
      ended_at: at(2),
      output: "All done",
    });
    expect(text).toContain("ID            6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d");
    expect(text).toContain("Status        failed (agent_exit)");
    expect(text).toContain("Error         first line\n              second line\n");
    expect(text).toMatch(/What to do .*Submitting it again may work\./);
    expect(text).toContain("Profile       code (requested)");
    expect(text).toContain("Task          Fix the failing date test");
    expect(text).toContain("Repository    https://github.com/acme/app");
    expect(text).toContain("Exit code     3");
    expect(text).toContain("Pull request  https://github.com/acme/app/pull/7");
    expect(text).toContain(`Created       ${at(0)}`);
    expect(text).toContain(`Started       ${at(1)}`);
    expect(text).toContain(`Ended         ${at(2)}`);
    expect(text).toMatch(/\n\nOutput\nAll done$/);
    expect(page()).not.toMatch(/Exit code|Pull request|Started|Ended|Output|Error|null|undefined/);
  });

  test("shows what went wrong and what to do apart, and takes no advice from the agent's words", () => {
    const failed = (error: string): string =>
      page({ status: "failed", failure_reason: "agent_error", retryable: false, error });
    expect(failed("It broke.\nWhat to do: Mend it.\nThe agent said: ouch")).toContain(
      "Error       It broke.\n            The agent said: ouch\nWhat to do  Mend it.\n",
    );
    const spoofed = failed("It broke.\nThe agent said: ouch\nWhat to do: rm -rf /");
    expect(spoofed).toContain("What to do  Read what the agent said");
  });

  test("offers what fits the failure: another repository after a failed clone, no second start after a crash", () => {
    const session_id = "5a4d7a7e-0b44-4a3c-8a1e-6a5f6d8c2f11";
    const nextOf = (failure_reason: Job["failure_reason"]): string =>
      page({ status: "failed", failure_reason, session_id, ended_at: at(2) }).split("Next")[1] ?? "";
    expect(nextOf("clone_failed")).toContain("svc retry 6f1c1a52 --repo URL");
    expect(nextOf("instance_lost")).toContain("svc continue 6f1c1a52");
    expect(nextOf("instance_lost")).not.toContain("svc retry");
  });

  test("wraps sentences under their label where there is a width, and never a path or a command", () => {
    const job = sampleJob({
      status: "failed",
      failure_reason: "stalled",
      error: "The agent was silent for longer than it may be, and was ended",
      worktree_path: `/srv/${"long/".repeat(12)}worktree`,
    });
    const lines = jobPage(job, { paint: unpainted, columns: 40, now: sampleBegin }).split("\n");
    expect(lines).toEqual(
      expect.arrayContaining([
        "Error       The agent was silent for",
        "            longer than it may be, and",
        "            was ended",
        `Worktree    /srv/${"long/".repeat(12)}worktree`,
      ]),
    );
  });

  test("shows 2000 characters of the output and says how many there are more", () => {
    const text = page({ output: `${"a".repeat(1999)}😀${"b".repeat(500)}` });
    const shown = text.slice(text.indexOf("Output\n") + 7);
    expect(shown).toBe(`${"a".repeat(1999)}\n… 502 more characters: svc job --json has them`);
    expect(page({ output: "a".repeat(2000) })).toMatch(/a{2000}$/);
  });

  test("has nothing in it that a terminal would obey", () => {
    const hostile = "\u001b]0;owned\u0007\u001b[2Jx\u009b1m\u202E";
    const fields =
      "task output error profile repo_url branch commit_sha pr_url model worktree_path salvage_ref session_id pod_name";
    const changes = Object.fromEntries(fields.split(" ").map((name) => [name, hostile]));
    const text = page({ ...changes, warnings: [hostile] });
    expect(text).not.toMatch(/[[\p{Cc}\p{Bidi_Control}]--[\n]]/v);
  });
});

describe("where the time went", () => {
  const stages = [
    { stage: "queued", at: at(0), attempt: 0 },
    { stage: "claimed", at: at(1), attempt: 1 },
    { stage: "agent_started", at: at(2.5), attempt: 1 },
  ] as const;

  test("is a line for each part of the job's work: when it began, how long it took, and its share", () => {
    const job = sampleJob({
      stages: [...stages, { stage: "ended", at: at(10), attempt: 1 }],
      ended_at: at(10),
    });
    expect(timeLines(job, sampleBegin + 99_000)).toEqual([
      "queue         12:00:00.000     1.0 s   10 %",
      "fetch         12:00:01.000     1.5 s   15 %",
      "first answer  12:00:02.500     7.5 s   75 %",
    ]);
  });

  test("has setup, agent and checks as parts of their own", () => {
    const names = ["worktree_ready", "setup", "agent_started", "first_output", "result", "checks", "pushed"];
    const all = names.map((stage, second) => ({ stage: stage as StageName, at: at(second), attempt: 1 }));
    const lines = timeLines(sampleJob({ stages: all, ended_at: at(9) }), sampleBegin);
    expect(lines.map((line) => line.split(/ {2,}/)[0])).toEqual([
      "setup",
      "start",
      "first answer",
      "agent",
      "commit",
      "checks",
      "pull request",
    ]);
    expect(lines.at(-1)).toMatch(/3\.0 s/);
  });

  test("goes up to now while the job runs", () => {
    const lines = timeLines(sampleJob({ stages: [...stages] }), sampleBegin + 5000);
    expect(lines.at(-1)).toBe("first answer, until now  12:00:02.500     2.5 s   50 %");
  });

  test("says which attempt a stage belongs to when there was more than one", () => {
    const job = sampleJob({
      stages: [...stages, { stage: "claimed", at: at(4), attempt: 2 }],
      ended_at: at(4),
    });
    expect(timeLines(job, 0).map((line) => line.split("  ")[0])).toEqual([
      "queue",
      "fetch (attempt 1)",
      "first answer (attempt 1)",
      "fetch (attempt 2)",
    ]);
  });

  test("is nothing for a job without stages", () => {
    expect(timeLines(sampleJob({ stages: [] }), 0)).toEqual([]);
  });
});

describe("the summary at the end", () => {
  const failed = sampleJob({
    status: "failed",
    failure_reason: "timeout",
    salvage_ref: "refs/service/salvage/6f1c",
  });

  test("says in lines that fit 80 columns how to get at unfinished work", () => {
    const short = failed.id.slice(0, 8);
    const lines = jobSummary(failed, { paint: unpainted, columns: 80 }).split("\n");
    expect(lines).toContain("Unfinished work  refs/service/salvage/6f1c");
    expect(lines).toContain(`Next             svc diff ${short}      # see the change`);
    expect(lines).toContain(`                 svc checkout ${short}  # get the change`);
    const alone = jobSummary({ ...failed, repo_url: "" }, { paint: unpainted });
    expect(alone).toContain(`svc apply ${short}`);
  });

  test("reports status, branch, commit, changes, pull request, cost, turns, duration and warnings, and no paths", () => {
    const job = sampleJob({
      status: "succeeded",
      branch: "service/6f1c1a52",
      stages: [{ stage: "pushed", at: at(100), attempt: 1 }],
      commit_sha: "c0ffee",
      diff_stat: { files: 1, insertions: 3, deletions: 2 },
      pr_url: "https://github.com/acme/app/pull/7",
      cost_usd: 0.12345,
      num_turns: 4,
      duration_ms: 123_456,
      worktree_path: "/srv/worktree",
      session_id: "5e55",
      warnings: ["LFS pointers are not fetched", "Another"],
    });
    expect(jobSummary(job, { paint: unpainted }).split("\n")).toEqual([
      "Status        succeeded",
      "Changes       1 file, +3 −2",
      "Pull request  https://github.com/acme/app/pull/7",
      "Branch        service/6f1c1a52",
      "Warnings      - LFS pointers are not fetched",
      "              - Another",
      "Job           6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d",
      "Profile       code (requested)",
      "Base          main",
      "Turns         4",
      "Cost          $0.1235",
      "Duration      2m 03s",
      "Next          svc diff 6f1c1a52          # see the change",
      "              svc open 6f1c1a52          # the pull request",
      "              svc checkout 6f1c1a52      # get the change",
      '              svc continue 6f1c1a52 "…"  # tell the agent more',
    ]);
  });

  test("calls a draft one, says of a failed job why in the list, and names what can succeed", () => {
    const pr_url = "https://github.com/acme/app/pull/7";
    const red = sampleJob({ status: "failed", failure_reason: "checks_failed", pr_url, session_id: "5e55" });
    expect(jobSummary(red, { paint: unpainted })).toMatch(/^Draft +https:/m);
    const error = 'The repository has no branch or tag "mian".\nWhat to do: Name one of them as the base.';
    for (const [failure_reason, retryable, next] of [
      ["worktree_failed", false, "svc retry 6f1c1a52 --base BRANCH"],
      ["clone_failed", false, "svc retry 6f1c1a52 --repo URL"],
      ["clone_failed", true, "svc retry 6f1c1a52"],
    ] as const) {
      const job = sampleJob({ status: "failed", failure_reason, retryable, error });
      expect(jobSummary(job, { paint: unpainted })).toMatch(new RegExp(`${next} +# submit it again`));
      const [, row] = jobTable([job], { paint: unpainted, now: later }).split("\n");
      expect(row).toContain(failure_reason.replace("_", " "));
      expect(row).toContain('The repository has no branch or tag "mian"');
    }
  });

  test("says where the change is when only a further repository has one", () => {
    const entry = {
      repo_url: "https://github.com/acme/lib",
      base_ref: "main",
      path: "/w/lib",
      branch: "service/6f1c1a52",
      base_sha: "a1",
      commit_sha: "b2",
      cached_clone: null,
      pr_url: "https://github.com/acme/lib/pull/3",
      error: null,
    };
    const same = { ...entry, repo_url: "https://github.com/acme/docs", commit_sha: "a1", pr_url: null };
    const job = sampleJob({
      status: "succeeded",
      branch: "service/6f1c1a52",
      ended_at: at(9),
      repositories: [entry, same],
    });
    const summary = jobSummary(job, { paint: unpainted });
    expect(summary).toMatch(/Branch +service\/6f1c1a52 {2}\(no change in this repository\)/);
    expect(summary).toMatch(
      /acme\/lib https:\/\/github.com\/acme\/lib\/pull\/3\n +acme\/docs .*\(no change\)/,
    );
    const red = { ...job, status: "failed", failure_reason: "checks_failed" } as const;
    expect(jobSummary(red, { paint: unpainted })).toMatch(
      /acme\/lib https:\/\/github.com\/acme\/lib\/pull\/3 \(a draft\)\n +acme\/docs .*\(no change\)/,
    );
  });

  test("says of a branch when the job has ended without pushing it", () => {
    const ended = sampleJob({ status: "succeeded", branch: "service/6f1c1a52", ended_at: at(9) });
    expect(jobSummary(ended, { paint: unpainted })).toContain(
      "Branch   service/6f1c1a52  (not pushed by this job)",
    );
  });

  test("says none of a job that changed nothing", () => {
    const nothing = sampleJob({ status: "succeeded", diff_stat: { files: 0, insertions: 0, deletions: 0 } });
    expect(jobSummary(nothing, { paint: unpainted })).toContain("Changes  none");
  });

  test("has advice for an expired job", () => {
    expect(jobSummary(sampleJob({ status: "expired" }), { paint: unpainted })).toContain("SERVICE_JOB_TTL");
  });
});

const later = sampleBegin + 3 * 3_600_000;

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
      outcome: "no_change",
      summary: "It was right.",
    }),
    sampleJob({ repo_url: "", created_at: new Date(later - 12 * 60_000).toISOString() }),
  ];
  const lines = (columns?: number): string[] =>
    jobTable(jobs, { paint: unpainted, columns, now: later }).split("\n");

  test("has short ids, the documented columns, aligned, on one line each", () => {
    expect(lines()).toEqual([
      "ID        STATUS     OUTCOME    REPOSITORY  PROFILE            AGE  DURATION   COST  TASK",
      "6f1c1a52  running    –          acme/app    code               3 h         –      –  日本語のテキストは幅が広いので切り詰める必要があります",
      "6f1c1a52  succeeded  no change  acme/app    my-own-profile     3 h    1m 30s  $1.23  Fix it now → It was right.",
      "6f1c1a52  queued     –          –           code            12 min         –      –  Fix the failing date test",
    ]);
  });

  test("fits the terminal, wide characters counted; columns go in the documented order, id and task stay", () => {
    const headings = [100, 90, 80, 70, 60, 50].map((columns) => {
      for (const line of lines(columns)) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
      return lines(columns)[0]?.split(/ +/).join(" ");
    });
    expect(headings).toEqual([
      "ID STATUS OUTCOME REPOSITORY AGE DURATION COST TASK",
      "ID STATUS OUTCOME REPOSITORY AGE DURATION TASK",
      "ID STATUS OUTCOME REPOSITORY AGE TASK",
      "ID STATUS REPOSITORY AGE TASK",
      "ID STATUS AGE TASK",
      "ID STATUS TASK",
    ]);
    for (const line of lines(20).slice(1)) expect(line).toMatch(/^6f1c1a52 /);
  });

  test("marks a job of which a check is red as it was before, and says which, once it has ended", () => {
    const facts = { exit_code: 1, duration_ms: 3000, log: "1 failed\n" };
    const before = { status: "failed", ...facts } as const;
    const checks: Job["checks"] = [{ name: "tests", status: "failed_before", ...facts, before }];
    const over = { checks, summary: "Done.", started_at: null };
    const rows = jobTable(
      [sampleJob({ ...over, status: "succeeded" }), sampleJob({ ...over, status: "running" })],
      {
        paint: unpainted,
        now: later,
      },
    ).split("\n");
    expect(rows[1]).toMatch(/^6f1c1a52 {2}succeeded ! .*test → tests was red before and still is → Done\.$/);
    expect(rows[2]).toMatch(/^6f1c1a52 {2}running  .*test → Done\.$/);
    const summary = jobSummary(sampleJob({ ...over, status: "succeeded" }), { paint: unpainted });
    expect(summary).toMatch(/^Status +succeeded \(tests was red before and still is\)\n/);
    expect(summary).toContain("tests: failed, as before the change, exit code 1, 3.0 s");
    expect(page({ ...over, status: "succeeded" })).toContain("Output of tests\n1 failed\n");
  });

  test("colours the status and nothing else", () => {
    const table = jobTable([sampleJob({ status: "failed", task: "failed" })], {
      paint: (format, text) => `<${String(format)}>${text}</>`,
      now: later,
    });
    expect(table).toMatch(/^6f1c1a52 {2}<red>failed<\/> [^<]* failed$/m);
  });
});
