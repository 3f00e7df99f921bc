import stringWidth from "string-width";
import { expect, test } from "vitest";
import { sampleJob } from "../../test/cli/sample-job.ts";
import { sampleWorktree } from "../../test/cli/sample-worktree.ts";
import { list } from "./columns.ts";
import { jobTable } from "./job.ts";
import { unpainted } from "./paint.ts";
import { secretTable } from "./secrets.ts";
import { instanceTable, usagePage } from "./service.ts";
import { worktreeTable } from "./worktrees.ts";

/* Tables on a terminal of 60 columns. */

const layout = { paint: unpainted, columns: 60 };
const long = "a-name-that-is-longer-than-people-like-to-type";
const url = `https://git.example.com/${long}/${long}`;
const figures = {
  runs: 123_456,
  succeeded: 1,
  failed: 1,
  cancelled: 0,
  cost_usd: 12_345.67,
  imputed_cost_usd: 0,
  estimated_cost_usd: 1,
  input_tokens: 123_456_789,
  output_tokens: 1,
  cache_creation_input_tokens: 1,
  cache_read_input_tokens: 1,
  turns: 123_456,
  duration_ms: 3_600_000_000,
  success_rate: 0.5,
};

test.each([
  ["jobs", jobTable([sampleJob({ profile: long, repo_url: url, task: long })], { ...layout, now: 0 })],
  ["worktrees", worktreeTable([sampleWorktree({ repo_url: url })], layout)],
  [
    "secrets",
    secretTable(
      [
        {
          name: long.toUpperCase().replaceAll("-", "_").slice(0, 24),
          repo: url.slice(8, 60),
          phase: "setup",
          hosts: ["npm.acme.example", "registry.acme.example"],
          header: "Authorization",
          plain: true,
          branches: ["release/*"],
          created_at: "2026-03-02T09:15:00.000Z",
        },
      ],
      layout,
    ),
  ],
  [
    "instances",
    instanceTable(
      {
        queue: { waiting: 1000, running: 100, oldest_wait_seconds: 86_400 },
        instances: [
          {
            name: long,
            version: "10.20.30",
            started_at: new Date(0).toISOString(),
            running: 100,
            max_parallel_jobs: 100,
            turns: 1000,
            draining: true,
            agent_mode: true,
            address: url,
          },
        ],
        lost: 12,
        recovered: 12,
        limits: [],
      },
      layout,
      86_400_000 * 100,
    ),
  ],
  [
    "usage",
    usagePage(
      {
        success: true,
        since: "2026-01-01",
        until: "2026-01-30",
        by: "repository",
        count: 1,
        rows: [{ ...figures, group: url }],
        total: figures,
        budgets: [],
      },
      layout,
    ),
  ],
  [
    "any other",
    list(
      [{ a: long, b: url }],
      [
        ["A", ({ a }) => a, { leaves: 1 }],
        ["B", ({ b }) => b],
      ],
      { empty: "", ...layout },
    ),
  ],
])("that of %s fits", (_, table) => {
  for (const line of table.split("\n")) expect([line, stringWidth(line) <= 60]).toEqual([line, true]);
});
