import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { bothClis, newestCli } from "../../test/agent-clis.ts";
import { fakeLaunch, fakeSettings, runFake } from "../../test/fake-agent/run.ts";
import { afterFile } from "../../test/cleanup.ts";
import { startFakeModel } from "../../test/fake-model/fake-model.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { outcomeOf, type Agent } from "../agents/agent.ts";
import { createClaudeAgent } from "../agents/claude/claude.ts";
import { createLog } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { createSandbox } from "../sandbox/sandbox.ts";
import { withCosts } from "./costs.ts";

/** The real CLI and the scripted model: whatever the CLI asks for counts once, whatever the agent asks for counts as well. */
const model = await startFakeModel({ token: "canary-token" });
afterFile(() => model.close());

const around = (remaining: number) => (agent: Agent) =>
  withCosts(agent, {
    telemetry: { earlierRuns: async () => null },
    budgets: { remaining: async () => remaining },
    log: createLog("error", () => ""),
  });

type Scene = { cli: string; mode: "bwrap" | "landlock"; maxBudgetUsd?: number };

const optionsOf = async ({ cli, mode, ...limits }: Scene) => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, "question.json"), question);
  await writeFile(join(directory, "ask.sh"), ask);
  return {
    directory,
    sandbox: (await createSandbox(mode)).sandbox,
    settings: { agentCliBinary: cli, modelBaseUrl: model.url, modelAuthToken: "canary-token" },
    launch: {
      bypassPermissions: true,
      args: ["--model", "sonnet", "--dangerously-skip-permissions"],
      ...limits,
    },
  };
};

const run = async (prompt: string, scene: Scene, remaining = Infinity) =>
  await runFake(prompt, { ...(await optionsOf(scene)), turn: { principal: "ana" }, wrap: around(remaining) });

const scenario = (name: string, parameters: object): string =>
  `scenario: ${name} ${JSON.stringify(parameters)}`;

/** A request that the agent makes by itself: 250,000 tokens of input, 0.75 USD. */
const messages = [{ role: "user", content: "a".repeat(1_000_000) }];
const question = JSON.stringify({ model: "claude-sonnet-5", max_tokens: 9, messages });
const ask = `curl -sS -o /dev/null \${ANTHROPIC_UNIX_SOCKET:+--unix-socket $ANTHROPIC_UNIX_SOCKET} \
  -H "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -d @question.json "$ANTHROPIC_BASE_URL/v1/messages"`;

describe.each(
  bothClis.flatMap((each) => [
    { ...each, mode: "bwrap" as const },
    { ...each, mode: "landlock" as const },
  ]),
)("$which CLI, $mode", ({ cli, mode }) => {
  // Long enough for the service to ask the CLI, with a budget that is spent.
  test("subagents and several turns of the model count once: the cost is the CLI's own", async () => {
    const calls = [
      {
        name: "Task",
        input: { description: "look", prompt: scenario("text", {}), subagent_type: "general-purpose" },
      },
      { name: "Bash", input: { command: "sleep 15", description: "wait" } },
    ];
    const { outcome, events } = await run(scenario("tools", { calls }), { cli, mode, maxBudgetUsd: 5 }, 0);
    expect(events.filter(({ type }) => type === "denied")).toEqual([]);
    const result = events.findLast(({ type }) => type === "result");
    expect(outcome).toMatchObject({ ok: true, costEstimated: false });
    expect(outcome.costUsd).toBe(result?.type === "result" && result.cost_usd);
    expect(outcome.costUsd).toBeGreaterThan(0);
  });

  test("what the agent asks the model itself is added, estimated", async () => {
    const { outcome } = await run(scenario("bash", { command: "sh ask.sh" }), { cli, mode });
    expect(outcome).toMatchObject({ ok: true, costEstimated: true });
    expect(outcome.costUsd).toBeGreaterThan(0.7);
    expect(outcome.usage?.input_tokens).toBeGreaterThan(240_000);
  });

  test.each([
    ["max_budget_usd", 0.5, Infinity],
    ["a budget of the day", undefined, 0.5],
  ])("past %s it is ended while it still works", async (_, maxBudgetUsd, remaining) => {
    const command = "sh ask.sh; sleep 1000";
    const limits = maxBudgetUsd === undefined ? {} : { maxBudgetUsd };
    const { outcome, left } = await run(scenario("bash", { command }), { cli, mode, ...limits }, remaining);
    expect(outcome).toMatchObject({ ok: false, reason: "budget", costEstimated: true });
    expect(outcome.error).toMatch(/spent at the model what it does not report[^]*What to do/);
    expect(outcome.costUsd).toBeGreaterThan(0.7);
    expect(left).toEqual([]);
  });
});

test("of a chat each turn costs what it spent, and between turns the model is closed", async () => {
  const { directory, sandbox, settings, launch } = await optionsOf({ cli: newestCli, mode: "bwrap" });
  const agent = around(Infinity)(
    createClaudeAgent({
      settings: { ...fakeSettings(directory), ...settings },
      env: { PATH: process.env["PATH"] },
      redact: createRedactor([]),
      sandbox,
    }),
  );
  const session = { id: randomUUID(), resumeFrom: null };
  const started = await agent.start({
    id: randomUUID(),
    attempt: 1,
    cwd: directory,
    launch: { ...fakeLaunch(directory), ...launch },
    session,
  });
  if (!started.ok) throw new Error(started.outcome.error ?? "");
  const say = (text: string) =>
    outcomeOf(
      started.process.turn({
        content: [{ type: "text", text }],
        appendSystemPrompt: null,
        effort: null,
        timeoutSeconds: 60,
        signal: new AbortController().signal,
      }),
    );
  const honest = await say(scenario("text", {}));
  const leaves = "(setsid sh -c 'sleep 2; sh ask.sh; touch asked' >/dev/null 2>&1 &); true";
  const other = await say(scenario("bash", { command: `sh ask.sh; ${leaves}` }));
  const requests = model.requests.length;
  await until(() => existsSync(join(directory, "asked")));
  expect(model.requests).toHaveLength(requests);
  const last = await say(scenario("text", {}));
  await started.process.end();
  expect([honest, other, last].map(({ ok, costEstimated }) => ({ ok, costEstimated }))).toEqual([
    { ok: true, costEstimated: false },
    { ok: true, costEstimated: true },
    { ok: true, costEstimated: false },
  ]);
  expect(other.costUsd).toBeGreaterThan(0.7);
  expect(other.costUsd).toBeLessThan(0.9);
  for (const { costUsd } of [honest, last]) expect(costUsd).toBeLessThan(0.2);
});
