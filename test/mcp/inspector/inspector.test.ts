import { beforeAll, expect, test } from "vitest";
import { toolNames, type Operations } from "../../../src/contract/operations.ts";
import { makeRemote } from "../../remote.ts";
import { fakeAgent, startService, svcProgram, type Service } from "../../service.ts";
import { createInspector } from "./inspector.ts";

const key = "key-of-the-test";
const tools: readonly string[] = toolNames;
let service: Service;

beforeAll(async () => {
  service = await startService({ env: { SERVICE_API_KEYS: key, AGENT_MODE: "true" } });
});

const over = (path: string) => createInspector([service.url + path, "--header", `X-Api-Key: ${key}`]);

test.each(["/mcp", "/sse"])("the inspector lists all tools over %s", async (path) => {
  expect(await (await over(path)).listTools()).toEqual(tools);
});

test("the inspector lists all tools over stdio", async () => {
  const variables = [
    "SERVICE_TRANSPORT=stdio",
    "AGENT_MODE=true",
    `SERVICE_AGENT_CLI_BINARY=${fakeAgent}`,
    "SERVICE_OTEL_ENABLED=false",
  ];
  const stdio = await createInspector([
    ...svcProgram,
    "serve",
    ...variables.flatMap((variable) => ["-e", variable]),
  ]);
  expect(await stdio.listTools()).toEqual(tools);
});

test("the inspector finds no schema that some clients could not use", async () => {
  const inspector = await over("/mcp");
  const { code, stderr } = await inspector.inspect("--method", "tools/list", "--strict");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("the inspector calls every tool over /mcp, and every one does what it is asked", async () => {
  const remote = await makeRemote();
  const inspector = await over("/mcp");
  const known: Record<string, string> = {};
  const steps: [keyof Operations, () => Record<string, string>][] = [
    ["run_task", () => ({ task: "Write the file", repo_url: remote.path })],
    ["wait_for_job", () => ({ job_id: known["job"] ?? "", timeout: "50" })],
    ["get_job", () => ({ job_id: known["job"] ?? "" })],
    ["list_jobs", () => ({ limit: "5", status: "succeeded" })],
    ["cancel_job", () => ({ job_id: known["job"] ?? "" })],
    ["get_diff", () => ({ job_id: known["job"] ?? "" })],
    ["list_profiles", () => ({})],
    ["prepare_worktree", () => ({ repo_url: remote.path, base_ref: "main" })],
    ["get_worktree", () => ({ worktree_id: known["worktree"] ?? "" })],
    ["list_worktrees", () => ({})],
    ["cleanup_worktrees", () => ({ paths: known["worktree"] ?? "", force: "true" })],
    ["get_disk_usage", () => ({})],
    ["list_instances", () => ({})],
    ["get_usage", () => ({ by: "profile" })],
    ["agent_completions", () => ({ uuid: "inspected", message: "scenario: noop" })],
    ["get_completion", () => ({ uuid: "inspected" })],
    ["list_completions", () => ({ status: "completed" })],
    ["cancel_completion", () => ({ uuid: "inspected" })],
    ["get_visibility", () => ({})],
    ["set_visibility", () => ({ show_thinking: "false" })],
  ];
  const results: Record<string, unknown> = {};
  for (const [name, args] of steps) {
    const { isError, structuredContent } = await inspector.callTool(name, args());
    expect({ name, isError, structuredContent }).toMatchObject({ structuredContent: { success: true } });
    expect(isError).toBeUndefined();
    results[name] = structuredContent;
    const { job, worktree_id } = structuredContent as { job?: { id: string }; worktree_id?: string };
    if (name === "run_task") known["job"] = job?.id ?? "";
    if (name === "prepare_worktree") known["worktree"] = worktree_id ?? "";
  }
  expect(Object.keys(results).toSorted()).toEqual(tools.toSorted());
  expect(results).toMatchObject({
    run_task: { job: { status: "queued" } },
    wait_for_job: { job: { id: known["job"], status: "succeeded" } },
    get_job: { job: { id: known["job"], status: "succeeded" } },
    list_jobs: { count: 1, jobs: [{ id: known["job"] }] },
    cancel_job: { job: { id: known["job"], status: "succeeded" } },
    get_worktree: { worktree: { worktree_id: known["worktree"], status: "ready" } },
    cleanup_worktrees: { removed: 1 },
    agent_completions: { status: "completed", is_error: false },
    get_completion: { completion: { uuid: "inspected", status: "completed" } },
    list_completions: { count: 1 },
    set_visibility: { visibility: { show_thinking: false, show_tools: true } },
  });
});
