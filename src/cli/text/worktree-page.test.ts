import { describe, expect, test } from "vitest";
import { sampleWorktree } from "../../../test/cli/sample-worktree.ts";
import { unpainted } from "./paint.ts";
import { preparedPage, worktreePage } from "./worktree-page.ts";

type Changes = Parameters<typeof sampleWorktree>[0];
const page = (changes: Changes = {}, clone: string | null = null): string =>
  worktreePage(sampleWorktree(changes), { paint: unpainted, clone });

describe("the page of a worktree", () => {
  test("has each field that has a value, and what to do with it", () => {
    expect(page().split("\n")).toEqual([
      "ID          0b8e7c4d-5a1f-4c2e-8d3b-9a6f7e5d4c3b",
      "Status      ready",
      "Kind        prepared",
      "Repository  https://github.com/acme/app",
      "Base        main",
      "Branch      service/wt-0b8e7c4d",
      "Path        /srv/worktrees/0b8e7c4d-5a1f-4c2e-8d3b-9a6f7e5d4c3b",
      "Size        1.4 GiB",
      "Pushed      yes",
      "Instance    pod",
      "Created     2026-05-01T12:00:00.000Z (5 h ago)",
      'Run in it   svc run --worktree-id 0b8e7c4d-5a1f-4c2e-8d3b-9a6f7e5d4c3b "what is to be done" --wait',
    ]);
  });

  test("of one that failed says why, and does not offer to run in it", () => {
    const text = page({
      status: "failed",
      error: "git says:\nno \u001b[2Jspace",
      size_bytes: null,
      pushed: null,
    });
    expect(text).toMatch(/^Error +git says:\n +no space$/m);
    expect(text).not.toMatch(/Run in it|Size|Pushed|null/);
  });

  test("of one in use names its job, and that its state is not known meanwhile", () => {
    const text = page({ status: "in_use", job_id: "the-job", pushed: null });
    expect(text).toMatch(/^Pushed +not known while a job is at work$/m);
    expect(text).toMatch(/^Job +the-job$/m);
  });

  test("says what the checkout left out, and so does the end of a preparation", () => {
    const worktree = sampleWorktree({ warnings: ["Submodules are left out", "LFS\nfiles too"] });
    const told = /^Warnings +- Submodules are left out\n +- LFS files too$/m;
    expect(worktreePage(worktree, { paint: unpainted, clone: null })).toMatch(told);
    expect(preparedPage(worktree, { paint: unpainted })).toMatch(told);
  });

  test("of one that is gone has the commands to get its work back", () => {
    const changes: Changes = { status: "removed", salvage_ref: "refs/service/salvage/x", size_bytes: null };
    const text = page(changes, "/srv/my repos/a1/repo.git");
    expect(text).toContain(
      "look at it:  git --git-dir '/srv/my repos/a1/repo.git' log -p --stat --diff-merges=1 refs/service/salvage/x --not ",
    );
    expect(text).toContain(
      "fetch it:    git fetch '/srv/my repos/a1/repo.git' refs/service/salvage/x:refs/heads/salvaged-0b8e7c4d",
    );
    expect(text).not.toContain("Run in it");
    expect(page(changes)).toMatch(/^Saved work +refs\/service\/salvage\/x$/m);
  });
});
