import { describe, expect, test } from "vitest";
import { sampleWorktree } from "../../test/cli/sample-worktree.ts";
import { unpainted } from "./paint.ts";
import stringWidth from "string-width";
import { preparedPage, worktreePage, worktreeTable } from "./worktrees.ts";

const id = "6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d";
const list = [
  sampleWorktree(),
  sampleWorktree({
    worktree_id: id,
    status: "in_use",
    age_hours: 0.2,
    size_bytes: 5000,
    pushed: null,
    prepared: false,
    repo_url: "",
  }),
  sampleWorktree({ status: "failed", age_hours: 50, size_bytes: null, pushed: false }),
];

describe("the table of worktrees", () => {
  test("has what tells them apart, numbers right-aligned, and what they come to", () => {
    expect(worktreeTable(list, { paint: unpainted }).split("\n")).toEqual([
      "ID                                    STATUS     AGE     SIZE  PUSHED  KIND      REPOSITORY",
      "0b8e7c4d-5a1f-4c2e-8d3b-9a6f7e5d4c3b  ready      5 h  1.4 GiB  yes     prepared  https://github.com/acme/app",
      `${id}  in_use  12 min  4.9 KiB  –       job       (none)`,
      "0b8e7c4d-5a1f-4c2e-8d3b-9a6f7e5d4c3b  failed     2 d        –  no      prepared  https://github.com/acme/app",
      "3 worktrees, 1.4 GiB; 1 not pushed; 1 failed: svc worktrees show ID says why",
    ]);
  });

  test("says nothing of what is not the case", () => {
    expect(worktreeTable([sampleWorktree()], { paint: unpainted }).split("\n").at(-1)).toBe(
      "1 worktree, 1.4 GiB",
    );
  });

  test("fits a terminal of 80 columns with age, size, what is pushed and the end of the address", () => {
    const widest = sampleWorktree({
      status: "preparing",
      age_hours: 0,
      size_bytes: 1023 * 1024,
      pushed: false,
    });
    const lines = worktreeTable([...list, widest], { paint: unpainted, columns: 80 }).split("\n");
    for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(80);
    expect(lines[0]).toMatch(/^ID +STATUS +AGE +SIZE +PUSHED +…TORY$/);
    expect(lines[4]).toMatch(/ {2}preparing {2}<1 min {2}1023 KiB {2}no {6}…\/app$/);
    expect(worktreeTable([sampleWorktree()], { paint: unpainted, columns: 80 })).toMatch(
      / {2}ready {3}5 h {2}1\.4 GiB {2}yes {5}….*acme\/app\n/,
    );
  });

  test.each([63, 60, 55])(
    "shows ids whole and what is pushed on %i columns, and nothing wraps",
    (columns) => {
      const all = [...list, sampleWorktree({ status: "preparing", age_hours: 0, pushed: false })];
      const lines = worktreeTable(all, { paint: unpainted, columns }).split("\n");
      for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
      expect(lines[0]).toMatch(columns >= 63 ? /^ID +STATUS +AGE +PUSHED$/ : /^ID +STATUS +PUSHED$/);
      expect(lines[2]).toMatch(new RegExp(`^${id}  in_use .* –$`));
      expect(lines.slice(5).join(" ")).toBe(
        "4 worktrees, 2.8 GiB; 2 not pushed; 1 failed: svc worktrees show ID says why",
      );
    },
  );

  test("keeps each on its line, whatever is in its address", () => {
    const hostile = sampleWorktree({ repo_url: "/srv/a\nb\u001b[2J\u202e" });
    const table = worktreeTable([hostile], { paint: unpainted });
    expect(table.split("\n")).toHaveLength(3);
    expect(table).toContain("/srv/a b\u{FFFD}");
  });

  test("colours the status and nothing else", () => {
    const table = worktreeTable([sampleWorktree({ repo_url: "/srv/ready" })], {
      paint: (format, text) => (format === "green" ? `<${text}>` : text),
    });
    expect(table).toMatch(/3b {2}<ready> .*\/srv\/ready\n/);
  });
});

type Changes = Parameters<typeof sampleWorktree>[0];
const page = (changes: Changes = {}): string => worktreePage(sampleWorktree(changes), { paint: unpainted });

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

  test("of one in use names its job, and that its state is not known in the meantime", () => {
    const text = page({ status: "in_use", job_id: "the-job", pushed: null });
    expect(text).toMatch(/^Pushed +not known while a job is at work$/m);
    expect(text).toMatch(/^Job +the-job$/m);
  });

  test("says what the checkout left out, and so does the end of a preparation", () => {
    const worktree = sampleWorktree({ warnings: ["Submodules are left out", "LFS\nfiles too"] });
    const told = /^Warnings +- Submodules are left out\n +- LFS files too$/m;
    expect(worktreePage(worktree, { paint: unpainted })).toMatch(told);
    expect(preparedPage(worktree, { paint: unpainted })).toMatch(told);
  });

  test("of one that is gone has the commands to get its work back", () => {
    const changes: Changes = { status: "removed", salvage_ref: "refs/service/salvage/x", size_bytes: null };
    const text = page({ ...changes, cached_clone: "/srv/my repos/a1/repo.git" });
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
