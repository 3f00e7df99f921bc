import { describe, expect, test } from "vitest";
import { sampleWorktree } from "../../test/cli/sample-worktree.ts";
import { unpainted } from "./paint.ts";
import stringWidth from "string-width";
import { cleanupReport, diskPage, preparedPage, worktreePage, worktreeTable } from "./worktrees.ts";

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

const mebi = 1024 ** 2;
const gibi = 1024 ** 3;
type Usage = Parameters<typeof diskPage>[0];

const repository = (
  repo_key: string | null,
  repo_url: string,
  cache_bytes: number,
  worktrees: number,
  worktree_bytes: number,
): Usage["repositories"][number] => ({
  repo_key,
  repo_url,
  cache_bytes,
  worktrees,
  worktree_bytes,
  unmeasured: 0,
  kept: [],
});

const usage = (changes: Partial<Usage> = {}): Usage => ({
  success: true,
  min_free_bytes: gibi,
  volumes: [
    { path: "/srv/repos", purpose: "repositories", free_bytes: 20 * gibi, total_bytes: 100 * gibi },
    { path: "/srv/worktrees", purpose: "worktrees", free_bytes: null, total_bytes: null },
  ],
  repositories: [
    repository("a1", "https://github.com/acme/app", 300 * mebi, 12, 2 * gibi),
    repository(null, "", 0, 1, 5000),
  ],
  max_environment_bytes: 20 * gibi,
  environments: [],
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

  test("says how far the worktrees are measured, also of a repository that takes nothing yet", () => {
    const [app, none] = usage().repositories as [
      Usage["repositories"][number],
      Usage["repositories"][number],
    ];
    const repositories = [
      { ...app, unmeasured: 3 },
      { ...none, worktree_bytes: 0, unmeasured: 1 },
    ];
    const text = diskPage(usage({ repositories }), { paint: unpainted });
    expect(text).toContain("\n2.3 GiB: 1 repository, 13 worktrees (4 not measured yet)\n");
  });

  test("has what is kept of setups, if there is any", () => {
    const environment = {
      repo_url: "https://github.com/acme/app",
      entries: 2,
      bytes: 300 * mebi,
      used_at: "2026-03-01T09:30:00.000Z",
    };
    const text = diskPage(usage({ environments: [environment] }), { paint: unpainted });
    expect(text).toMatch(/\n {3}WARM {2}COUNT {2}USED .*\n300 MiB {6}2 {2}.*acme\/app\n300 MiB of 20 GiB\n/);
  });

  test("leaves out what has no clone and takes nothing", () => {
    const empty = repository("b2", "/nosuch", 0, 1, 0);
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
