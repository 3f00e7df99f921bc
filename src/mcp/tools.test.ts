import { expect, test } from "vitest";
import type { Operation } from "../contract/operation.ts";
import { operations, toolNames } from "../contract/operations.ts";
import { toolsOf } from "./tools.ts";

const tools = toolsOf(operations, { agent: true });

const tool = (name: string) => {
  const found = tools.find((tool) => tool.name === name);
  if (found === undefined) throw new Error(`there is no tool ${name}`);
  return found;
};

test("every operation is a tool, in the registry's order, with title, description and hints", () => {
  expect(tools.map(({ name }) => name)).toEqual(toolNames);
  for (const name of toolNames) {
    const operation: Operation = operations[name];
    expect(tool(name)).toMatchObject({
      title: operation.title,
      description: expect.stringContaining(operation.summary),
      annotations: {
        title: operation.title,
        readOnlyHint: operation.annotations.readOnly,
        destructiveHint: operation.annotations.destructive,
        idempotentHint: operation.annotations.idempotent,
        openWorldHint: ["run_task", "get_diff", "prepare_worktree", "agent_completions"].includes(name),
      },
      inputSchema: { type: "object", additionalProperties: false },
      outputSchema: { type: "object" },
    });
  }
});

test("those of agent mode are offered in agent mode only", () => {
  const names = toolsOf(operations, { agent: false }).map(({ name }) => name);
  expect(names).toEqual(toolNames.filter((name) => (operations[name] as Operation).part === undefined));
  expect(names).not.toContain("agent_completions");
});

test("parameters keep their description and default, and those for REST only are not offered", () => {
  const { properties, required } = tool("run_task").inputSchema;
  expect(Object.keys(properties ?? {})).toEqual(
    Object.keys(operations.run_task.input.shape).filter((name) => name !== "wait"),
  );
  expect(required).toEqual(["task"]);
  expect(properties?.["base_ref"]).toEqual({
    type: "string",
    default: "",
    maxLength: 255,
    description:
      "Branch or tag the work is based on; empty: SERVICE_BASE_REF (main) where the repository has it, else its default branch",
  });
});

test("run_task explains how to repeat a call safely", () => {
  expect(tool("run_task").description).toContain("_meta as svc/idempotency-key");
  expect(tool("get_job").description).not.toContain("idempotency");
});

test("schemas have nothing that one of the clients' validators stumbles over", () => {
  const text = JSON.stringify(tools);
  expect(text).not.toContain("$schema");
  expect(text).not.toContain("9007199254740991");
  // In a result closed schemas would refuse fields that are added later.
  expect(JSON.stringify(tools.map(({ outputSchema }) => outputSchema))).not.toContain("additionalProperties");
});
