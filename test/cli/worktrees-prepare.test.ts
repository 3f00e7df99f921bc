import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Worktree } from "../../src/contract/worktree.ts";
import { until } from "../until.ts";
import { startSvc, svc } from "./run-svc.ts";
import { sampleWorktree } from "./sample-worktree.ts";
import { json, stubService } from "./stub-service.ts";
import { answering, ready, start } from "./worktree-stub.ts";

const id = ready.worktree_id;
const preparing = sampleWorktree({ status: "preparing", size_bytes: null, pushed: null });

/** The program, which takes this stream for a terminal. */
const withTerminal = (stream: "stdout" | "stderr") => [
  process.execPath,
  "--import",
  `data:text/javascript,Object.assign(process.${stream}, { isTTY: true, getColorDepth: () => 1 })`,
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

  test("prints id, path, branch and the command that comes next on a terminal, also beside a pipe", async () => {
    const page = [
      `ID         ${id}`,
      `Path       ${ready.path}`,
      "Branch     service/wt-0b8e7c4d",
      `Run in it  svc run --worktree-id ${id} "what is to be done" --wait`,
      "",
    ].join("\n");
    const on = async (terminal: "stdout" | "stderr") => {
      const { env } = await start([ready]);
      return svc(["worktrees", "prepare", "/a"], {
        env: { ...env, NO_COLOR: "1" },
        program: withTerminal(terminal),
      });
    };
    expect(await on("stdout")).toEqual({ code: 0, stdout: page, stderr: "" });
    expect(await on("stderr")).toEqual({ code: 0, stdout: `${id}\n`, stderr: page });
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
      new RegExp(`\nsvc: The disk is full\n.* failed; remove it:  svc worktrees cleanup ${id}\n$`),
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

  test("that fails at once names the newest worktree that failed for this reason, and how to remove it", async () => {
    const failed = (worktree_id: string, error: string) =>
      sampleWorktree({ worktree_id, status: "failed", error });
    const list = [
      failed("first", "This is why"),
      failed("second", "This is why"),
      failed("third", "Another"),
    ];
    const left = async (code: string, worktrees: Worktree[]) => {
      const stub = await stubService({
        "POST /worktrees": json(400, { success: false, error: "This is why", code }),
        "GET /worktrees": json(200, { success: true, count: worktrees.length, worktrees }),
      });
      return svc(["worktrees", "prepare", "/a", "--json"], { env: { SERVICE_PORT: String(stub.port) } });
    };
    const told = await left("clone_failed", list);
    expect(told.stderr).toMatch(
      /^svc: This is why\n.* failed; remove it: {2}svc worktrees cleanup second\n$/,
    );
    expect(JSON.parse(told.stdout)).toEqual({ success: false, error: "This is why", code: "clone_failed" });
    expect(told.code).toBe(1);
    for (const { stderr } of [await left("clone_failed", list.slice(2)), await left("invalid_ref", list)])
      expect(stderr).toBe("svc: This is why\n");
  });

  test("continues after a restart of the service", async () => {
    const { env, stub, state } = await start([preparing]);
    const { output, ended } = startSvc(["worktrees", "prepare", "/a"], { env });
    await until(() => output.stderr.includes("Still preparing"));
    await stub.stop();
    await until(() => output.stderr.includes("The service is unreachable"));
    state.states = [ready];
    await stub.start();
    const { code, stdout, stderr } = await ended;
    expect(stderr).toContain("The service answers again");
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
