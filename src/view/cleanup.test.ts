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

describe("the report of a cleanup", () => {
  test("has each worktree, why one was left, where work is, and what was freed", () => {
    const results = [result({ salvage_ref: "refs/service/salvage/one" }), refused];
    expect(cleanupReport(body({ results }), { paint: unpainted }).split("\n")).toEqual([
      "removed  1.4 GiB  /srv/worktrees/one",
      "    its unpushed work is saved as refs/service/salvage/one",
      "left     4.9 KiB  /srv/worktrees/two",
      "    It holds work that is not pushed: push it, or give --force, which saves it first",
      "1 removed, 1.4 GiB freed; 1 left in place",
    ]);
  });

  test("of a dry run does not claim to have done anything", () => {
    const results = [result()];
    expect(cleanupReport(body({ results, dry_run: true }), { paint: unpainted }).split("\n")).toEqual([
      "would be removed  1.4 GiB  /srv/worktrees/one",
      "1 would be removed, 1.4 GiB freed",
    ]);
  });

  test("says of one that was gone already that it was removed before, and nothing as if it had just been", () => {
    const gone = result({ removed: false, size_bytes: 5000 });
    const saved = result({ removed: false, size_bytes: 0, salvage_ref: "refs/service/salvage/one" });
    for (const dry_run of [false, true]) {
      expect(
        cleanupReport(body({ results: [gone, saved], removed: 0, dry_run }), { paint: unpainted }).split(
          "\n",
        ),
      ).toEqual([
        "was removed before    /srv/worktrees/one",
        "was removed before    /srv/worktrees/one",
        "    what was not pushed then is under refs/service/salvage/one",
        dry_run ? "0 would be removed, 0 B freed" : "0 removed, 0 B freed",
      ]);
    }
  });

  test("names the jobs that were, or would be, cancelled, and where work was, or would be, saved", () => {
    const one = result({ cancelled_jobs: ["a"], salvage_ref: "refs/service/salvage/a" });
    const two = result({ cancelled_jobs: ["a", "b\u001b[2J"] });
    const remarks = (dry_run: boolean): string[] =>
      cleanupReport(body({ results: [one, two], removed: 2, dry_run }), { paint: unpainted })
        .split("\n")
        .filter((line) => line.startsWith(" "));
    expect(remarks(false)).toEqual([
      "    job a was cancelled",
      "    its unpushed work is saved as refs/service/salvage/a",
      "    jobs a, b were cancelled",
    ]);
    expect(remarks(true)).toEqual([
      "    job a would be cancelled",
      "    its unpushed work would be saved as refs/service/salvage/a",
      "    jobs a, b would be cancelled",
    ]);
  });

  test("wraps reasons to the terminal, never a path", () => {
    const long = `/srv/${"long/".repeat(12)}worktree`;
    const lines = cleanupReport(body({ results: [{ ...refused, path: long }] }), {
      paint: unpainted,
      columns: 40,
    }).split("\n");
    expect(lines[0]).toBe(`left  4.9 KiB  ${long}`);
    for (const line of lines.slice(1)) expect(stringWidth(line)).toBeLessThanOrEqual(40);
  });
});
