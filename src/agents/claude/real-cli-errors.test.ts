import { describe, expect, test } from "vitest";
import { bothClis } from "../../../test/agent-clis.ts";
import { startReal, textOf } from "./real-cli.fixture.ts";

const { runWith } = await startReal();

describe.each(bothClis)("$which CLI", ({ cli }) => {
  const run = runWith(cli);

  test.concurrent.for<[string, object]>([
    ['error {"status": 401}', { reason: "auth", retryable: false }],
    ['error {"status": 429, "resetsIn": 3600}', { reason: "rate_limited", retryable: true }],
    ['error {"status": 500}', { reason: "api_error", retryable: true }],
    ["refusal", { reason: "agent_error", retryable: false }],
  ])("%s", async ([scenario, expected]) => {
    const { outcome, events } = await run(`scenario: ${scenario}`, { settings: { agentCliIdleTimeout: 60 } });
    expect(outcome).toMatchObject({ ok: false, exitCode: 1, ...expected });
    expect(textOf(events)).not.toContain("API Error");
    expect(outcome.error).not.toContain("canary");
  });

  test("no credentials, too many turns and a missing session are distinguished", async () => {
    const nobody = await run("hello", { settings: { modelAuthToken: null } });
    expect(nobody.outcome).toMatchObject({ reason: "auth", exitCode: 1 });
    const call = { name: "Bash", input: { command: "true", description: "Nothing" } };
    const tools = `scenario: tools ${JSON.stringify({ calls: [call, call, call] })}`;
    const turns = await run(tools, {
      launch: { args: ["--dangerously-skip-permissions", "--max-turns", "2"] },
    });
    expect(turns.outcome).toMatchObject({
      reason: "max_turns",
      exitCode: 1,
      text: expect.stringContaining("Calling Bash."),
    });
    const session = { id: crypto.randomUUID(), resumeFrom: "/nowhere/at-all.jsonl" };
    const lost = await run("hello", { start: { session } });
    expect(lost.outcome).toMatchObject({ ok: false, sessionId: null });
    expect(lost.outcome.error).toMatch(/No conversation found|not found/i);
  });
});
