import { describe, expect, test } from "vitest";
import { svc } from "./run-svc.ts";
import { answering, ready, start } from "./worktree-stub.ts";

const id = ready.worktree_id;

describe("svc worktrees list", () => {
  test("shows them, with --json the body as it is, and says when there is none", async () => {
    const body = { success: true, count: 1, worktrees: [ready], added_later: 1 };
    const { env } = await answering("GET /worktrees", 200, body);
    const shown = await svc(["worktrees", "list"], { env });
    expect(shown.stdout).toMatch(new RegExp(`^ID .*\n${id}  ready .*acme/app\n1 worktree, 1.4 GiB\n$`));
    const raw = await svc(["worktrees", "list", "--json"], { env });
    expect(JSON.parse(raw.stdout)).toEqual(body);
    const none = await answering("GET /worktrees", 200, { success: true, count: 0, worktrees: [] });
    expect(await svc(["worktrees", "list"], none)).toEqual({ code: 0, stdout: "No worktrees\n", stderr: "" });
  });
});

describe("svc worktrees show", () => {
  test("shows it, and with --json the body as it is", async () => {
    const { env } = await start([ready]);
    expect((await svc(["worktrees", "show", id], { env })).stdout).toMatch(
      /^ID +0b8e[^]*Branch +service\/wt-/,
    );
    expect(JSON.parse((await svc(["worktrees", "show", id, "--json"], { env })).stdout)).toEqual({
      success: true,
      worktree: ready,
      added_later: 1,
    });
  });
});

describe("svc worktrees cleanup", () => {
  const result = (changes: Record<string, unknown> = {}) => ({
    path: ready.path,
    worktree_id: id,
    success: true,
    removed: true,
    error: null,
    cancelled_jobs: [],
    size_bytes: 1000,
    salvage_ref: null,
    ...changes,
  });
  const refusal = { success: false, removed: false, error: "A job uses it" };
  const cleaning = async (results: unknown[], dry_run = false) => {
    const removed = results.filter((each) => (each as { removed: boolean }).removed).length;
    const body = { success: true, removed, dry_run, results };
    return { body, ...(await answering("DELETE /worktrees", 200, body)) };
  };

  test("sends what is named, relative paths as seen from here, and its options", async () => {
    const { env, stub } = await cleaning([result()], true);
    const options = ["--max-age-hours", "72", "--force", "--dry-run"];
    const { code } = await svc(["worktrees", "cleanup", id, "./a/", "..", "/srv/x/../b//", ...options], {
      env,
      cwd: "/usr/lib",
    });
    expect(code).toBe(0);
    const query = new URL(stub.requests[0]?.url ?? "", "http://stub").searchParams;
    expect(Object.fromEntries(query)).toEqual({
      paths: `${id},/usr/lib/a,/usr,/srv/b`,
      max_age_hours: "72",
      force: "true",
      dry_run: "true",
    });
  });

  test("reports what became of each, and how to get saved work back", async () => {
    const { env } = await cleaning([result({ salvage_ref: "refs/service/salvage/x" })]);
    const { code, stdout, stderr } = await svc(["worktrees", "cleanup", id, "--force"], { env });
    expect(stdout).toMatch(
      /^removed +1000 B +\/srv[^]*saved as refs\/service\/salvage\/x\n1 removed, 1000 B freed\n$/,
    );
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^To get saved work back: svc worktrees show ID, or svc job ID/),
    });
  });

  test.each([
    ["named by id", [id], [result(refusal)], 1],
    ["old, not named", ["--max-age-hours", "1"], [result(refusal)], 0],
  ])("when the one left is %s, with and without --json", async (_, args, results, exit) => {
    const { env, body } = await cleaning(results);
    expect(await svc(["worktrees", "cleanup", ...args], { env })).toMatchObject({ code: exit, stderr: "" });
    const raw = await svc(["worktrees", "cleanup", ...args, "--json"], { env });
    expect(JSON.parse(raw.stdout)).toEqual(body);
    expect(raw).toMatchObject({ code: exit, stderr: "" });
  });

  test("says that none is older", async () => {
    const { env } = await cleaning([]);
    expect(await svc(["worktrees", "cleanup", "--max-age-hours", "72"], { env })).toEqual({
      code: 0,
      stdout: "No worktree is that old\n",
      stderr: "",
    });
  });
});

test("svc disk shows the body, and with --json as it is", async () => {
  const body = {
    success: true,
    min_free_bytes: 0,
    max_environment_bytes: 0,
    environments: [],
    volumes: [],
    repositories: [],
    added_later: 1,
  };
  const { env } = await answering("GET /disk", 200, body);
  expect((await svc(["disk"], { env })).stdout).toMatch(/^No repositories on disk\n/);
  expect(JSON.parse((await svc(["disk", "--json"], { env })).stdout)).toEqual(body);
});
