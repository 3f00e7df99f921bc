import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import { diskPage } from "./worktrees.ts";
import { unpainted } from "./paint.ts";

const mebi = 1024 ** 2;
const gibi = 1024 ** 3;
type Usage = Parameters<typeof diskPage>[0];

const usage = (changes: Partial<Usage> = {}): Usage => ({
  success: true,
  min_free_bytes: gibi,
  volumes: [
    { path: "/srv/repos", purpose: "repositories", free_bytes: 20 * gibi, total_bytes: 100 * gibi },
    { path: "/srv/worktrees", purpose: "worktrees", free_bytes: null, total_bytes: null },
  ],
  repositories: [
    {
      repo_key: "a1",
      repo_url: "https://github.com/acme/app",
      cache_bytes: 300 * mebi,
      worktrees: 12,
      worktree_bytes: 2 * gibi,
      kept: [],
    },
    { repo_key: null, repo_url: "", cache_bytes: 0, worktrees: 1, worktree_bytes: 5000, kept: [] },
  ],
  ...changes,
});

describe("the page of the disk", () => {
  test("has each repository, the whole, what is free and where the floor is", () => {
    expect(diskPage(usage(), { paint: unpainted }).split("\n")).toEqual([
      "  TOTAL    CLONE  WORKTREES  COUNT  REPOSITORY",
      "2.3 GiB  300 MiB    2.0 GiB     12  https://github.com/acme/app",
      "4.9 KiB      0 B    4.9 KiB      1  (worktrees without a repository)",
      "2.3 GiB: 1 repository, 13 worktrees",
      "",
      "  FREE       OF  FOR           PATH",
      "20 GiB  100 GiB  repositories  /srv/repos",
      "     –        –  worktrees     /srv/worktrees",
      "",
      "No job is accepted with less than 1.0 GiB free",
    ]);
  });

  test("leaves out what has no clone and takes nothing", () => {
    const empty = {
      repo_key: "b2",
      repo_url: "/nosuch",
      cache_bytes: 0,
      worktrees: 1,
      worktree_bytes: 0,
      kept: [],
    };
    const all = usage();
    const lines = (repositories: Usage["repositories"]): string[] =>
      diskPage(usage({ repositories }), { paint: unpainted }).split("\n");
    expect(lines([...all.repositories, empty])).toEqual(lines(all.repositories));
    expect(lines([empty])[0]).toBe("No repositories on disk");
    const cloned = { ...empty, cache_bytes: 1 };
    expect(lines([cloned])[1]).toMatch(/\/nosuch$/);
  });

  test("says that no job is accepted when there is too little room, and what helps", () => {
    const text = diskPage(usage({ min_free_bytes: 21 * gibi }), {
      paint: (format, cell) => (format === "red" ? `<red>${cell}</>` : cell),
    });
    expect(text).toMatch(/<red>20 GiB<\/> .*\/srv\/repos/);
    expect(text).toMatch(/<red>No job is accepted with less than 21 GiB free.*svc worktrees cleanup<\/>$/);
  });

  test("says when there is no repository and when there is no floor", () => {
    const text = diskPage(usage({ repositories: [], min_free_bytes: 0 }), { paint: unpainted });
    expect(text).toMatch(/^No repositories on disk\n/);
    expect(text).toMatch(/no floor: SERVICE_MIN_FREE_DISK_BYTES is 0$/);
  });

  test("fits a terminal, ends of addresses kept", () => {
    const tables = diskPage(usage(), { paint: unpainted, columns: 60 });
    for (const line of tables.split("\n").slice(0, 8)) expect(stringWidth(line)).toBeLessThanOrEqual(60);
    expect(tables).toMatch(/….*acme\/app$/m);
  });
});
