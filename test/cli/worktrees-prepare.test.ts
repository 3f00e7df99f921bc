import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { until } from "../until.ts";
import { startSvc, svc } from "./run-svc.ts";
import { sampleWorktree } from "./sample-worktree.ts";
import { stubService } from "./stub-service.ts";
import { answering, ready, start } from "./worktree-stub.ts";

const id = ready.worktree_id;
const preparing = sampleWorktree({ status: "preparing", size_bytes: null, pushed: null });

/** The program, which takes its standard output for a terminal. */
const withTerminal = [
  process.execPath,
  "--import",
  "data:text/javascript,Object.assign(process.stdout, { isTTY: true, getColorDepth: () => 1 })",
  join(import.meta.dirname, "..", "..", "src", "cli", "main.ts"),
];

describe("svc worktrees prepare", () => {
  test("sends address and base, and prints the id alone", async () => {
    const { env, stub } = await start([ready]);
    const run = await svc(["worktrees", "prepare", "./sub", "--base", "dev"], { env, cwd: "/usr" });
    expect(JSON.parse(stub.requests[0]?.body ?? "")).toEqual({ repo_url: "/usr/sub", base_ref: "dev" });
    expect(run).toEqual({ code: 0, stdout: `${id}\n`, stderr: "" });
    expect(stub.requests).toHaveLength(1);
  });

  test("prints id, path, branch and the command that comes next on a terminal", async () => {
    const { env } = await start([ready]);
    const run = { env: { ...env, NO_COLOR: "1" }, program: withTerminal };
    const { code, stdout } = await svc(["worktrees", "prepare", "/a"], run);
    expect(code).toBe(0);
    for (const said of [id, ready.path, "service/wt-0b8e7c4d", `svc run --worktree-id ${id} `])
      expect(stdout).toContain(said);
  });

  test("waits while it is being prepared, and with --json prints the final body and nothing else", async () => {
    const { env, stub } = await start([preparing, preparing, ready]);
    const { code, stdout, stderr } = await svc(["worktrees", "prepare", "/a", "--json"], { env });
    expect(JSON.parse(stdout)).toEqual({ success: true, worktree_id: id, worktree: ready, added_later: 1 });
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: `Still preparing ${id}; a first clone can take minutes\n`,
    });
    expect(stub.requests.map(({ method }) => method)).toEqual(["POST", "GET", "GET"]);
  });

  test("that fails while it waits says why, how to remove it, and ends with 1", async () => {
    const failed = sampleWorktree({ status: "failed", error: "The disk\u001b[2J is full" });
    const { env } = await start([preparing, failed]);
    const plain = await svc(["worktrees", "prepare", "/a"], { env });
    expect(plain).toMatchObject({ code: 1, stdout: "" });
    expect(plain.stderr).toMatch(
      new RegExp(`\nsvc: The disk is full\nRemove it:  svc worktrees cleanup ${id}\n$`),
    );
    const again = await start([preparing, failed]);
    const raw = await svc(["worktrees", "prepare", "/a", "--json"], again);
    expect(raw.code).toBe(1);
    expect(JSON.parse(raw.stdout)).toMatchObject({ worktree_id: id, worktree: { status: "failed" } });
  });

  test.each([
    [400, "clone_failed", 1],
    [400, "worktree_failed", 1],
    [503, "repo_unavailable", 1],
    [503, "disk_full", 1],
    [400, "invalid_repo_url", 2],
    [400, "invalid_ref", 2],
  ])("refused with %i %s says why and ends with %i", async (status, code, exit) => {
    const body = { success: false, error: "This is why", code };
    const { env } = await answering("POST /worktrees", status, body);
    const run = await svc(["worktrees", "prepare", "/a", "--json"], { env });
    expect(JSON.parse(run.stdout)).toEqual(body);
    expect(run).toMatchObject({ code: exit, stderr: "svc: This is why\n" });
  });

  test("continues after a restart of the service", async () => {
    const { env, stub, state } = await start([preparing]);
    const { output, ended } = startSvc(["worktrees", "prepare", "/a"], { env });
    await until(() => output.stderr.includes("Still preparing"));
    await stub.stop();
    await until(() => output.stderr.includes("The service is unreachable"));
    state.states = [ready];
    await stub.start();
    const { code, stdout } = await ended;
    expect(stdout).toBe(`${id}\n`);
    expect(code).toBe(0);
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("on %s says that it goes on and where to look, and ends with %i", async (signal, exit) => {
    const { env } = await start([preparing]);
    const { child, output, ended } = startSvc(["worktrees", "prepare", "/a"], { env });
    await until(() => output.stderr.includes("Still preparing"));
    child.kill(signal);
    const { code, stderr } = await ended;
    expect(stderr).toContain(`svc worktrees show ${id}`);
    expect(code).toBe(exit);
  });

  test("interrupted before there is an id names the list", async () => {
    const stub = await stubService({ "POST /worktrees": () => undefined });
    const { child, ended } = startSvc(["worktrees", "prepare", "/a"], {
      env: { SERVICE_PORT: String(stub.port) },
    });
    await until(() => stub.requests.length === 1);
    child.kill("SIGINT");
    const { code, stderr } = await ended;
    expect(stderr).toMatch(/preparation continues.\nLook at it: {2}svc worktrees list\n$/);
    expect(code).toBe(130);
  });
});
