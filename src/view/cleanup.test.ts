import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import { cleanupReport } from "./worktrees.ts";
import { unpainted } from "./paint.ts";

type Cleanup = Parameters<typeof cleanupReport>[0];

const result = (changes: Partial<Cleanup["results"][number]> = {}): Cleanup["results"][number] => ({
  path: "/srv/worktrees/one",
  worktree_id: "one",
  success: true,
  removed: true,
  error: null,
  cancelled_jobs: [],
  size_bytes: 1_503_238_554,
  salvage_ref: null,
  ...changes,
});

const refused = result({
  path: "/srv/worktrees/two",
  worktree_id: "two",
  success: false,
  removed: false,
  error: "It holds work that is not pushed: push it, or give --force,\nwhich saves it first",
  size_bytes: 5000,
});

const body = (changes: Partial<Cleanup>): Cleanup => ({
  success: true,
  removed: 1,
  dry_run: false,
  results: [],
  ...changes,
});

const report = (changes: Partial<Cleanup>): string => cleanupReport(body(changes), { paint: unpainted });

describe("the report of a cleanup", () => {
  test("has each worktree, why one was left, where work is, and what was freed", () => {
    const saved = result({ salvage_ref: "refs/service/salvage/one", cancelled_jobs: ["a", "b\u001b[2J"] });
    expect(report({ results: [saved, refused] }).split("\n")).toEqual([
      expect.stringMatching(/^removed .*1\.4 GiB .*worktrees\/one$/),
      "    cancelled: a, b",
      "    unpushed work saved as refs/service/salvage/one",
      expect.stringMatching(/^left .*4\.9 KiB .*worktrees\/two$/),
      expect.stringMatching(
        /^ +It holds work that is not pushed: push it, or give --force, which saves it first$/,
      ),
      "1 removed, 1.4 GiB freed; 1 left in place",
    ]);
  });

  test("of a dry run does not claim to have done anything", () => {
    const text = report({ results: [result({ cancelled_jobs: ["a"], salvage_ref: "r" })], dry_run: true });
    expect(text).toMatch(
      /^would be removed [^]*would be cancelled: a[^]*would be saved as r\n1 would be removed/,
    );
  });

  test("says of one that was gone already that it was removed before", () => {
    const gone = result({ removed: false, size_bytes: 5000, salvage_ref: "refs/service/salvage/one" });
    for (const dry_run of [false, true])
      expect(report({ results: [gone], removed: 0, dry_run })).toMatch(
        /^was removed before .*\n +what was not pushed then is under refs\/service\/salvage\/one\n0 .*0 B freed$/,
      );
  });

  test("wraps reasons to the terminal, never a path", () => {
    const long = `/srv/${"long/".repeat(12)}worktree`;
    const narrow = { paint: unpainted, columns: 40 };
    const lines = cleanupReport(body({ results: [{ ...refused, path: long }] }), narrow).split("\n");
    expect(lines[0]).toContain(long);
    for (const line of lines.slice(1)) expect(stringWidth(line)).toBeLessThanOrEqual(40);
  });
});
