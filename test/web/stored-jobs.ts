import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RunTaskInput } from "../../src/contract/job.ts";
import { newRecord } from "../../src/jobs/new-record.ts";
import { inFiles, requireFormat } from "../../src/store/format.ts";
import type { JobRecord } from "../../src/store/job-record.ts";

const tasks = [
  "Fix the failing date test",
  "Describe the layout of this repository",
  "Replace moment with Temporal in the billing reports, and keep the formats",
  "Add a retry with backoff to the webhook sender",
  "Why is the nightly import slow since Monday? Measure before you change anything",
  "Rename Room to GitContext everywhere",
  "Make the upload page usable by keyboard alone",
];
const repositories = [
  "https://github.com/acme/app",
  "https://github.com/acme/billing",
  "git@git.example.org:platform/ingest.git",
];

/**
 * Writes jobs that have ended where a service that starts in this home finds them; the newest is `tasks[0]`. `over`: what
 * the newest has besides.
 */
export const storeJobs = async (
  home: string,
  count: number,
  over: Partial<JobRecord> = {},
): Promise<void> => {
  const directory = join(home, ".service", "jobs");
  await mkdir(directory, { recursive: true });
  await requireFormat(inFiles(directory), { mark: true });
  const now = Date.now();
  const records = Array.from({ length: count }, (_, at) => ({
    ...ended(at, now - 60_000 - at * 47 * 60_000),
    ...(at === 0 && over),
  }));
  await Promise.all(
    records.map((record) => writeFile(join(directory, `${record.id}.json`), JSON.stringify(record))),
  );
};

const ended = (at: number, created: number): JobRecord => {
  const id = `${at.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`;
  const record = newRecord({
    id,
    now: new Date(created),
    input: RunTaskInput.parse({ task: tasks[at % tasks.length] }),
    repoUrl: repositories[at % repositories.length] ?? "",
    profile: { name: at % 5 === 4 ? "review" : "code", rule: "requested", model: "sonnet", retryLost: false },
    ttlSeconds: 100_000_000,
    idempotency: null,
    principal: "open",
    worktree: null,
    boundTo: null,
  });
  const status = at % 7 === 2 ? "failed" : at % 11 === 5 ? "cancelled" : "succeeded";
  const seconds = 20 + ((at * 137) % 900);
  return {
    ...record,
    status,
    exit_code: status === "succeeded" ? 0 : 1,
    failure_reason: status === "failed" ? "timeout" : null,
    started_at: new Date(created + 1500).toISOString(),
    ended_at: new Date(created + 1500 + seconds * 1000).toISOString(),
    duration_ms: seconds * 1000,
    branch: `service/${id.slice(0, 8)}`,
    diff_stat:
      status === "succeeded"
        ? { files: 1 + (at % 9), insertions: (at * 31) % 700, deletions: (at * 17) % 250 }
        : null,
    pr_url: status === "succeeded" ? `https://github.com/acme/app/pull/${at + 7}` : null,
    cost_usd: ((at * 97) % 400) / 100 + 0.01,
    num_turns: 4 + (at % 30),
    attempt: 1,
  };
};
