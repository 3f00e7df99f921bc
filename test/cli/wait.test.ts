import { describe, expect, test } from "vitest";
import type { JobEvent } from "../../src/contract/event.ts";
import type { Job } from "../../src/contract/job.ts";
import { until } from "../until.ts";
import { startSvc, svc } from "./run-svc.ts";
import { sampleJob, sampleLog } from "./sample-job.ts";
import { json, stream, stubService } from "./stub-service.ts";

const queued = sampleJob();
const log = sampleLog(
  { type: "stage", stage: "queued", detail: null },
  { type: "stage", stage: "fetched", detail: "/srv/repo.git" },
  { type: "tool_use", id: "1", name: "Bash", input: { command: "npm test\u001b[2J" }, parent: null },
  { type: "thinking", block: 0, text: "secret thoughts" },
  { type: "text", block: 1, text: "Done\u001b]0;owned\u0007 it." },
  { type: "stage", stage: "ended", detail: "failed" },
);

const start = async (final: Job | null, more: Parameters<typeof stubService>[0] = {}) => {
  const state: { events: JobEvent[]; final: Job | null } = { events: log, final };
  const stub = await stubService({
    "POST /jobs": json(200, { success: true, job: queued }),
    [`GET /jobs/${queued.id}`]: json(200, { success: true, job: final ?? queued }),
    [`GET /jobs/${queued.id}/events`]: stream(
      () => state.events,
      () => state.final,
    ),
    ...more,
  });
  return { state, stub, env: { SERVICE_PORT: String(stub.port) } };
};

const succeeded = sampleJob({ status: "succeeded", branch: "service/6f1c1a52" });
const failed = sampleJob({
  status: "failed",
  failure_reason: "timeout",
  salvage_ref: "refs/service/salvage/x",
  cached_clone: "/srv/repo.git",
});

describe("svc run --wait", () => {
  test("prints the id first, then each stage and tool once, then the summary", async () => {
    const { env } = await start(failed);
    const { code, stdout } = await svc(["run", "x", "--wait"], { env });
    const [id, ...lines] = stdout.split("\n");
    expect(id).toBe(queued.id);
    expect(lines.slice(0, 6)).toEqual([
      "   0:00  stage    queued",
      "   0:01  stage    fetched  /srv/repo.git",
      "   0:02  tool     Bash  npm test",
      "   0:04  text     Done it.",
      "   0:05  stage    ended  failed",
      "",
    ]);
    expect(stdout).toMatch(/^Status +failed \(timeout\)$/m);
    expect(stdout).toMatch(/^Profile +code \(requested\)$/m);
    expect(stdout).toMatch(/^Next +svc diff 6f1c1a52 +# see the change$/m);
    expect(stdout).not.toContain("\u001b");
    expect(code).toBe(1);
  });

  test("ends with 0 only when the job has succeeded", async () => {
    expect((await svc(["run", "x", "-w"], await start(succeeded))).code).toBe(0);
    expect((await svc(["run", "x", "-w"], await start(sampleJob({ status: "cancelled" })))).code).toBe(1);
  });

  test("with --json prints the final body and nothing else", async () => {
    const { env } = await start(failed);
    const { code, stdout, stderr } = await svc(["run", "x", "-r", ".", "--wait", "--json"], { env });
    expect(JSON.parse(stdout)).toEqual({ success: true, job: failed });
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
  });

  test("says of a disk that is full that the service cannot go on, in the words of its readiness", async () => {
    const message = "The disk of /srv/worktrees has 0 B free: free some room there";
    const checks = [
      { name: "model", status: "fault", message: "No credential" },
      { name: "disk", status: "fault", message },
    ];
    const ready = { ready: false, reasons: [message], checks, companions: [], transcripts: false };
    const { env } = await start(null, { "GET /ready": json(503, ready) });
    const { child, output, ended } = startSvc(["run", "x", "--wait"], { env });
    await until(() => output.stdout.includes(`The service cannot go on: ${message}\n`));
    child.kill("SIGINT");
    await ended;
    expect(output.stdout).not.toContain("No credential");
  });

  test("says that the repository was forgotten before the task is submitted", async () => {
    const stub = await stubService({
      "POST /jobs": json(503, { success: false, error: "Not now", code: "draining" }),
    });
    const told = async (...args: string[]) =>
      (await svc(["run", "x", ...args], { env: { SERVICE_PORT: String(stub.port) } })).stderr;
    expect(await told()).toMatch(/^No --repo: the agent will work in an empty directory.*\nsvc: Not now/);
    expect(await told("--json")).toMatch(/^No --repo:/);
    for (const args of [
      ["-r", "."],
      ["--worktree-id", "w"],
      ["--session-id", "s"],
    ])
      expect(await told(...args)).toBe("svc: Not now\n");
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("on %s leaves the job alone, says how to go on, and ends with %i", async (signal, exit) => {
    const { env, stub } = await start(null);
    const { child, output, ended } = startSvc(["run", "x", "--wait"], { env });
    await until(() => output.stdout.includes("ended  failed"));
    child.kill(signal);
    const { code, stderr } = await ended;
    expect(stderr).toContain("the job continues");
    expect(stderr).toContain(`svc logs -f ${queued.id.slice(0, 8)}`);
    expect(stderr).toContain(`svc cancel ${queued.id.slice(0, 8)}`);
    expect(code).toBe(exit);
    expect(stub.requests.some(({ method }) => method === "DELETE")).toBe(false);
  });

  test("continues after a restart of the service, nothing twice", async () => {
    const { env, stub, state } = await start(null);
    state.events = log.slice(0, 2);
    const { output, ended } = startSvc(["run", "x", "--wait"], { env });
    await until(() => output.stdout.includes("fetched"));
    await stub.stop();
    await until(() => output.stdout.includes("The service is unreachable"));
    state.events = log;
    state.final = succeeded;
    await stub.start();
    const { code, stdout } = await ended;
    expect(stdout.match(/stage +fetched/g)).toHaveLength(1);
    expect(stdout).toContain("The service answers again");
    expect(stdout).toContain("Bash  npm test");
    expect(code).toBe(0);
  });
});

describe("svc job", () => {
  test("names the commands for unfinished work", async () => {
    const { env } = await start(failed);
    const { code, stdout } = await svc(["job", queued.id], { env });
    expect(stdout).toMatch(/^ +svc checkout 6f1c1a52 +# get the change$/m);
    expect(code).toBe(0);
  });

  test("names only the ref when the clone is not known", async () => {
    const { env } = await start({ ...failed, cached_clone: null });
    const { code, stdout } = await svc(["job", queued.id], { env });
    expect(stdout).toMatch(/Unfinished work {2}refs\/service\/salvage\/x\n/);
    expect(code).toBe(0);
  });
});
