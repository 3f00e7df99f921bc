import { describe, expect, test } from "vitest";
import { cleanupReport, type Cleanup } from "./cleanup-report.ts";
import { unpainted } from "./paint.ts";
import { width } from "./width.ts";

const result = (changes: Partial<Cleanup["results"][number]> = {}): Cleanup["results"][number] => ({
  path: "/srv/worktrees/one",
  worktree_id: "one",
  success: true,
  error: null,
  size_bytes: 1_503_238_554,
  salvage_ref: null,
  ...changes,
});

const refused = result({
  path: "/srv/worktrees/two",
  worktree_id: "two",
  success: false,
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

  test("wraps reasons to the terminal, never a path", () => {
    const long = `/srv/${"long/".repeat(12)}worktree`;
    const lines = cleanupReport(body({ results: [{ ...refused, path: long }] }), {
      paint: unpainted,
      columns: 40,
    }).split("\n");
    expect(lines[0]).toBe(`left  4.9 KiB  ${long}`);
    for (const line of lines.slice(1)) expect(width(line)).toBeLessThanOrEqual(40);
  });
});
