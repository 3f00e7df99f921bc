import { describe, expect, test } from "vitest";
import { svc } from "./run-svc.ts";
import { json, stubService } from "./stub-service.ts";

const bodies = {
  health: { status: "ok", service: "svc" },
  ready: {
    ready: true,
    reasons: [],
    checks: [{ name: "model", status: "warning", message: "No \u001b[2Jcredential" }],
    companions: [],
  },
  instances: {
    success: true,
    count: 1,
    queue: { waiting: 2, running: 1, oldest_wait_seconds: 7 },
    lost: 1,
    recovered: 0,
    limits: [],
    instances: [
      {
        name: "build-1",
        version: "1.0.0",
        started_at: "2026-05-01T12:00:00.000Z",
        running: 1,
        max_parallel_jobs: 3,
        turns: 0,
        draining: false,
        added_later: 1,
      },
    ],
  },
};

describe("svc status", () => {
  test("shows version, queue and checks", async () => {
    const stub = await stubService({
      "GET /health": json(200, bodies.health),
      "GET /ready": json(200, bodies.ready),
      "GET /instances": json(200, bodies.instances),
    });
    const env = { SERVICE_PORT: String(stub.port) };
    const { code, stdout } = await svc(["status"], { env });
    expect(stdout.replaceAll(/ {2,}/g, "  ")).toBe(
      [
        "Status  New jobs are accepted",
        "Service  svc 1.0.0",
        `Address  http://127.0.0.1:${stub.port}`,
        "Queue  2 waiting, the oldest for 7.0 s; 1 running: build-1 1 of 3",
        "  1 job failed with a lost instance, 0 queued again after one",
        "Model  warning: No credential\n",
      ].join("\n"),
    );
    expect(code).toBe(0);
    const { instances, queue } = bodies.instances;
    expect(JSON.parse((await svc(["status", "--json"], { env })).stdout)).toEqual({
      ...bodies.health,
      ...bodies.ready,
      instances,
      queue,
    });
  });

  test("is not ok when jobs are refused, and shows what it may without a key", async () => {
    const reasons = ["The instance is asked to drain"];
    const refusing = await stubService({
      "GET /health": json(200, bodies.health),
      "GET /ready": json(503, { ready: false, reasons, checks: [], companions: [] }),
      "GET /instances": json(401, { error: "Invalid or missing API key" }),
    });
    const { code, stdout, stderr } = await svc(["status"], { env: { SERVICE_PORT: String(refusing.port) } });
    expect(stdout).toMatch(/^Status +New jobs are refused: The instance is asked to drain\n/);
    expect(stderr).toMatch(/^svc: the queue is not shown: .* asks for an API key/);
    expect(code).toBe(1);
  });
});
