import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { svc } from "./run-svc.ts";

test("help of a command is the same by either name", async () => {
  const one = await svc(["run", "--help"]);
  expect(one).toMatchObject({ code: 0, stdout: expect.stringContaining("--base-ref") });
  expect(await svc(["help", "run"])).toEqual(one);
});

describe("what is not understood ends with 2", () => {
  test.each([
    [["jobs", "--limt", "3"], /unknown option '--limt'\n\(Did you mean --limit\?\)/],
    [["jobs", "-n", "0"], /whole number from 1 to 1000/],
    [["jobs", "-n", "2x"], /whole number from 1 to 1000/],
    [["serve", "--port", "70000"], /whole number from 0 to 65535/],
    [["run", "-O3 breaks the build"], /unknown option[^]*begins with a dash goes after --\n/],
    [["run", ""], /task is empty/],
    [["run", " \n"], /task is empty/],
    [["run", "x", "--public"], /goes with --create-repo/],
    [["run", "x", "--worktree-id", ""], /--worktree-id is empty/],
    [[], /Usage: svc/],
    [["worktrees"], /Usage: svc worktrees[^]*prepare[^]*cleanup/],
    [["worktrees", "clean"], /unknown command 'clean'\n\(Did you mean cleanup\?\)\n[^]*svc worktrees --help/],
    [["worktrees", "list", "all"], /too many arguments[^]*svc worktrees list --help/],
    [["worktrees", "show"], /missing required argument 'worktree_id'[^]*svc worktrees show --help/],
    [["worktrees", "prepare"], /missing required argument 'repo_url'[^]*svc worktrees prepare --help/],
    [["worktrees", "cleanup"], /paths or ids of worktrees, or --max-age-hours/],
    [["worktrees", "cleanup", "--force", "--dry-run"], /paths or ids of worktrees, or --max-age-hours/],
    [["worktrees", "cleanup", "--max-age-hours", "0"], /paths or ids of worktrees, or --max-age-hours/],
    [["worktrees", "cleanup", "--max-age-hours", "1.5"], /whole number from 0 to 876000/],
    [["worktrees", "cleanup", "--max-age-hours", "-1"], /whole number from 0 to 876000/],
    [["worktrees", "cleanup", ""], /name is empty/],
    [["worktrees", "cleanup", "/a,b"], /path with a comma/],
    [["disk", "/tmp"], /too many arguments/],
    [["drain", "--timeout", "0"], /whole number from 1 to 86400/],
    [["init-shared-fs"], /--shared-root or SERVICE_SHARED_FS_ROOT/],
    [["init-shared-fs", "--shared-root", ""], /--shared-root or SERVICE_SHARED_FS_ROOT/],
  ])("%j", async (args, message) => {
    const { code, stdout, stderr } = await svc(args);
    expect(stderr).toMatch(message);
    expect(stdout).toBe("");
    expect(code).toBe(2);
  });

  test.each(["", "  \n\n"])("an empty task on standard input (%j)", async (input) => {
    const { code, stderr } = await svc(["run", "-"], { input });
    expect(stderr).toMatch(/task is empty/);
    expect(code).toBe(2);
  });

  test.each([
    [100_001, "100,001"],
    [3_000_000, "3,000,000"],
  ])("a task of %i characters on standard input", async (length, told) => {
    const { code, stderr } = await svc(["run", "-"], { input: "x".repeat(length) });
    expect(stderr).toContain(`The task has ${told} characters and may have 100,000`);
    expect(code).toBe(2);
  });
});

test.each([["version"], ["--version"], ["-V"]])("svc %s prints name and version", async (word) => {
  const root = join(import.meta.dirname, "..", "..");
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
  expect(await svc([word])).toEqual({ code: 0, stdout: `svc ${version}\n`, stderr: "" });
});

test("an older Node is refused at once", async () => {
  const old = `data:text/javascript,Object.defineProperty(process, "versions", { value: { ...process.versions, node: "22.11.0" } })`;
  const program = [
    process.execPath,
    "--import",
    old,
    join(import.meta.dirname, "..", "..", "src", "cli", "main.ts"),
  ];
  const { code, stdout, stderr } = await svc(["version"], { program });
  expect(stderr).toMatch(/^svc: needs Node\.js 24 or later, and this is 22\.11\.0/);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
});
