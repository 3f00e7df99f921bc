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

test.each(["/mcp", "/sse"])(
  "the inspector lists all tools over %s, and finds no schema that some clients could not use",
  async (path) => {
    expect(await (await over(path)).listTools()).toEqual(tools);
  },
);

test("the inspector lists all tools over stdio", async () => {
  const variables = [
    "SERVICE_TRANSPORT=stdio",
    "AGENT_MODE=true",
    `SERVICE_AGENT_CLI_BINARY=${fakeAgent}`,
    "SERVICE_OTEL_ENABLED=false",
    // The inspector passes on what it logs.
    "SERVICE_LOG_LEVEL=error",
  ];
  const stdio = await createInspector([
    ...svcProgram,
    "serve",
    ...variables.flatMap((variable) => ["-e", variable]),
  ]);
  expect(await stdio.listTools()).toEqual(tools);
});

test("the inspector calls tools over /mcp with texts, numbers and booleans, and each does what it is asked", async () => {
  const remote = await makeRemote();
  const inspector = await over("/mcp");
  const known: Record<string, string> = {};
  const steps: [keyof Operations, () => Record<string, string>][] = [
    ["run_task", () => ({ task: "Write the file", repo_url: remote.path })],
    ["wait_for_job", () => ({ job_id: known["job"] ?? "", timeout: "50" })],
    ["list_jobs", () => ({ limit: "5", status: "succeeded" })],
    ["prepare_worktree", () => ({ repo_url: remote.path, base_ref: "main" })],
    ["cleanup_worktrees", () => ({ paths: known["worktree"] ?? "", force: "true" })],
    ["agent_completions", () => ({ uuid: "inspected", message: "scenario: noop" })],
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
  expect(results).toMatchObject({
    run_task: { job: { status: "queued" } },
    wait_for_job: { job: { id: known["job"], status: "succeeded" } },
    list_jobs: { count: 1, jobs: [{ id: known["job"] }] },
    cleanup_worktrees: { removed: 1 },
    agent_completions: { status: "completed", is_error: false },
    set_visibility: { visibility: { show_thinking: false, show_tools: true } },
  });
});
