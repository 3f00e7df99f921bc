import { expect, test } from "vitest";
import type { JobRecord } from "../store/job-record.ts";
import type { Dependencies } from "./dependencies.ts";
import { createJobDiff } from "./job-diff.ts";

test("of many files those that are left out come first", async () => {
  const files = Array.from({ length: 1200 }, (_, nth) => ({
    path: String(nth),
    insertions: 1,
    deletions: 0,
    size: 1,
    left_out: nth === 1100,
  }));
  const diff = { base: null, head: null, files, text: "", truncated: true, lossy: false, kept: [] };
  const sources = { repos: { diff: async () => diff }, redact: (text: string) => text, settings: {} };
  const record = { id: "job", worktree_id: "job", worktree_path: "/w", status: "running" };
  const answered = await createJobDiff(sources as unknown as Dependencies)({
    record: record as JobRecord,
    format: "patch",
    max_bytes: 1000,
    repository: "",
    signal: new AbortController().signal,
  });
  expect(answered.files.map(({ path }) => path).slice(0, 3)).toEqual(["1100", "0", "1"]);
  expect(answered.files).toHaveLength(1000);
  expect(answered.diff_stat.files).toBe(1200);
});
