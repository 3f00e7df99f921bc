import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { AgentEvent } from "../../contract/event.ts";
import { converse, startProcess, textOf } from "../../../test/fake-agent/converse.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";

const start = async (options: Omit<Parameters<typeof converse>[0], "directory"> = {}) =>
  converse({ directory: await temporaryDirectory(), ...options });

const chat = (...steps: object[]): string => `scenario: chat ${JSON.stringify({ steps })}`;

const types = (events: readonly AgentEvent[]): string =>
  events
    .map(({ type }) => type)
    .filter((type, at, all) => type !== all[at - 1])
    .join(" ");

describe("a conversation", () => {
  test("takes one turn after another in one process, each with its own result, cost and model", async () => {
    const { process: agent, say, left } = await start();
    expect(agent.isIdle()).toBe(true);
    const first = await say("scenario: remember");
    expect(first.outcome).toMatchObject({
      ok: true,
      reason: null,
      error: null,
      apiStatus: null,
      text: "I remember 0 earlier prompts.",
      sessionId: agent.sessionId,
      model: "fake-sonnet",
      numTurns: 1,
      costUsd: 0.0123,
      usage: { input_tokens: 100, output_tokens: 20 },
    });
    expect(agent.isIdle()).toBe(true);
    const second = await say("scenario: remember");
    expect(second.outcome).toMatchObject({
      text: "I remember 1 earlier prompts.",
      model: "fake-sonnet",
      costUsd: 0.0123,
    });
    expect(second.events.at(-1)).toMatchObject({ type: "result", cost_usd: 0.0123 });
    expect(agent.turns()).toBe(2);
    await agent.end();
    expect(agent.isIdle()).toBe(false);
    expect(await left()).toEqual([]);
  });

  test("gives the agent words, images, system prompt and effort in one go", async () => {
    const { say } = await start({
      launch: { args: ["--model", "sonnet", "--append-system-prompt=Of the profile.", "--max-turns", "3"] },
    });
    const first = await say("", {
      content: [
        { type: "text", text: "/scenario: echo" },
        { type: "image", mediaType: "image/png", base64: "aGVsbG8=" },
      ],
      appendSystemPrompt: "Of the request.",
      effort: "low",
    });
    expect(JSON.parse(first.outcome.text)).toMatchObject({
      prompt: "\n/scenario: echo",
      append: "Of the profile.\n\nOf the request.",
      model: "sonnet",
      effort: "low",
      images: 1,
      turn: 1,
      maxTurns: "3",
      resumed: false,
    });
    const second = await say("scenario: echo", { appendSystemPrompt: "Too late.", effort: "high" });
    expect(JSON.parse(second.outcome.text)).toMatchObject({
      append: "Of the profile.\n\nOf the request.",
      model: "sonnet",
      effort: "high",
      turn: 2,
    });
  });

  test("leaves the system prompt of the arguments alone when there is nothing to append", async () => {
    const directory = await temporaryDirectory();
    const file = join(directory, "system.md");
    await writeFile(file, "Of the file.");
    const { say } = await start({ launch: { args: ["--append-system-prompt", "Of the profile."] } });
    expect(JSON.parse((await say("scenario: echo")).outcome.text)).toMatchObject({
      append: "Of the profile.",
    });
    const filed = await start({ launch: { args: ["--append-system-prompt-file", file] } });
    const { outcome } = await filed.say("scenario: echo", { appendSystemPrompt: "Of the request." });
    expect(JSON.parse(outcome.text)).toMatchObject({ append: "Of the file.\n\nOf the request." });
  });

  test("reports its events in order, the result last, in one turn at a time", async () => {
    const { process: agent, say } = await start();
    const steps = [
      { thinking: "Let me see." },
      { text: "I look." },
      { tool: { name: "Bash", input: { command: "ls" }, result: "a\nb", isError: true } },
      { text: "There are two." },
    ];
    const { events, outcome } = await say(chat(...steps));
    expect(types(events)).toBe(
      "started thinking block_end text block_end tool_start tool_use usage tool_result text block_end usage result",
    );
    expect(textOf(events)).toBe("I look.There are two.");
    expect(events).toContainEqual(
      expect.objectContaining({ type: "tool_result", content: "a\nb", is_error: true }),
    );
    expect(outcome.text).toBe("There are two.");
    const again = await say(chat({ text: "Yes." }));
    expect(types(again.events)).toBe("text block_end usage result");

    // The first try of a broken stream is named before anything else comes.
    const broken = (await say('scenario: broken-stream {"same": false}')).events;
    const [first] = broken.filter((event) => event.type === "text");
    const warned = broken.findIndex((event) => event.type === "warning");
    expect(broken[warned]).toMatchObject({ dropped_block: first?.block });
    expect(types(broken.slice(warned - 1, warned + 2))).toBe("block_end warning text");

    const stop = new AbortController();
    const running = say("scenario: sleep", { signal: stop.signal });
    await expect(say("scenario: noop")).rejects.toThrow("one turn at a time");
    stop.abort();
    expect((await running).outcome.ok).toBe(false);

    // Who leaves the events of a turn early ends the turn and nothing else.
    const leaving = say("scenario: sleep", {
      onEvent: () => {
        throw new RangeError("too deep");
      },
    });
    await expect(leaving).rejects.toThrow("too deep");
    expect(agent.isIdle()).toBe(true);
    expect((await say("scenario: noop")).outcome).toMatchObject({ ok: true });
  });

  test("hands on no credential of the service, in environment or arguments, and masks the agent's own in everything it emits", async () => {
    const file = join(await temporaryDirectory(), "seen.json");
    const forbidden =
      "SERVICE_API_KEYS KV_URL GIT_HOST_TOKEN GH_TOKEN TRACING_SECRET_KEY GIT_HOST_APP_PRIVATE_KEY".split(
        " ",
      );
    const { say } = await start({
      settings: { modelAuthToken: "canary-token", agentEnv: [...forbidden, "MY_SECRET", "SHOWN"] },
      env: {
        ...Object.fromEntries(forbidden.map((name) => [name, `canary-${name}`])),
        MY_SECRET: "canary-secret",
        SHOWN: "not a secret",
      },
      secrets: ["canary-token", "canary-secret"],
    });
    const { events, outcome } = await say(`scenario: print-env {"file": "${file}"}`);
    const told = JSON.stringify([events, outcome]);
    expect(told).not.toContain("canary");
    expect(told).toContain("ANTHROPIC_AUTH_TOKEN=***");
    expect(told).toContain("SHOWN=not a secret");
    const warned = events.flatMap((event) => (event.type === "warning" ? [event.message] : [])).join();
    for (const name of forbidden) expect(warned).toContain(` ${name},`);
    const { env, argv } = JSON.parse(await readFile(file, "utf8")) as {
      env: Record<string, string>;
      argv: string[];
    };
    expect(env).toMatchObject({ ANTHROPIC_AUTH_TOKEN: "canary-token", MY_SECRET: "canary-secret" });
    expect(JSON.stringify([env, argv])).not.toMatch(new RegExp(`canary-(${forbidden.join("|")})`));
    expect(argv.join(" ")).not.toContain("canary");
  });

  test("continues in another process by the transcript's path", async () => {
    const directory = await temporaryDirectory();
    const first = await converse({ directory });
    await first.say("scenario: remember");
    await first.process.end();
    const id = first.process.sessionId;
    const slug = directory.replace(/[^a-zA-Z0-9]/g, "-");
    const resumeFrom = join(directory, ".config-of-job", "projects", slug, `${id}.jsonl`);
    const second = await converse({ directory, session: { id, resumeFrom } });
    const { outcome } = await second.say("scenario: echo");
    expect(outcome.sessionId).toBe(id);
    expect(JSON.parse(outcome.text)).toMatchObject({ resumed: true, earlierPrompts: 1, session: id });
  });
});

test("a turn that fails leaves the process fit for the next, against which nothing of it is held", async () => {
  const { process: agent, say } = await start();
  const failures: [scenario: string, expected: object, error: RegExp][] = [
    ["auth-error", { reason: "auth", apiStatus: 401 }, /AGENT_CLI_OAUTH_TOKEN/],
    ['auth-error {"status": 403}', { reason: "auth" }, /403/],
    ['auth-error {"status": null}', { reason: "auth" }, /Not logged in/],
    [
      "rate-limit",
      { reason: "rate_limited", apiStatus: 429, retryable: true },
      /resets, at 2026-11-21T\d\d:/,
    ],
    ['rate-limit {"event": false}', { reason: "rate_limited", retryable: true }, /session limit/],
    ["api-error", { reason: "api_error", apiStatus: 500, retryable: true }, /status 500/],
    ['api-error {"status": 529}', { reason: "api_error", retryable: true }, /status 529/],
    ['api-error {"status": 400}', { reason: "api_error", retryable: false }, /model of "code"/],
    [
      "max-turns",
      { reason: "max_turns", retryable: false, apiStatus: null, text: "I work on it." },
      /max_turns/,
    ],
    [
      "budget",
      { reason: "budget", retryable: false, apiStatus: null, text: "I work on it." },
      /max_budget_usd/,
    ],
    ["error-result", { reason: "agent_error", apiStatus: null }, /I failed, whatever my exit code says/],
  ];
  for (const [scenario, expected, error] of failures) {
    const bad = await say(`scenario: ${scenario}`);
    expect(bad.outcome).toMatchObject({ ok: false, ...expected });
    expect(bad.outcome.error).toMatch(error);
    expect(bad.outcome.error).not.toMatch(/\bjob\b|profile/);
    expect(agent.isIdle()).toBe(true);
  }
  const good = await say("scenario: noop");
  expect(good.outcome).toMatchObject({ ok: true, reason: null, error: null, text: "Nothing to do." });
});

describe("a process that ends in the middle of a turn", () => {
  test.for<[string, object, RegExp]>([
    ["exit-without-result", { reason: "agent_exit", retryable: true }, /code 0 without giving a result/],
    ["die", { reason: "agent_exit", retryable: true }, /killed by SIGKILL/],
    ['close-stdout {"seconds": 1000}', { reason: "agent_exit" }, /without giving a result/],
  ])("%s", async ([scenario, expected, error]) => {
    const { process: agent, say, left } = await start();
    await say("scenario: noop");
    const { outcome, events } = await say(`scenario: ${scenario}`);
    expect(outcome).toMatchObject({ ok: false, costUsd: null, ...expected });
    expect(outcome.error).toMatch(error);
    expect(events.some(({ type }) => type === "result")).toBe(false);
    await agent.ended;
    expect(agent.isIdle()).toBe(false);
    expect(await left()).toEqual([]);
    expect((await say("scenario: noop")).outcome).toMatchObject({ ok: false, reason: "agent_exit" });
  });
});

describe("what cannot start", () => {
  test("is a value: a CLI that is missing or not executable, a missing directory", async () => {
    const directory = await temporaryDirectory();
    const plain = join(directory, "plain");
    await writeFile(plain, "text");
    await chmod(plain, 0o644);
    for (const agentCliBinary of ["no-such-agent-cli", plain]) {
      const started = await startProcess({ directory, settings: { agentCliBinary } });
      expect(started).toMatchObject({
        ok: false,
        outcome: {
          reason: "cli_not_found",
          error: expect.stringContaining("SERVICE_AGENT_CLI_BINARY"),
        },
      });
    }
    const gone = join(directory, "gone");
    expect(await startProcess({ directory: gone })).toMatchObject({
      ok: false,
      outcome: { reason: "internal", error: expect.stringContaining(gone) },
    });
  });

  test("and what ends before its first turn says why in that turn", async () => {
    const session = { id: "11111111-2222-4333-8444-555555555555", resumeFrom: "/nowhere/at-all.jsonl" };
    const { process: agent, say } = await start({ session });
    await agent.ended;
    expect(agent.isIdle()).toBe(false);
    const { outcome } = await say("go on");
    expect(outcome).toMatchObject({ ok: false, reason: "agent_error", sessionId: null });
    expect(outcome.error).toContain("No conversation found");
  });
});

describe("a process that waits", () => {
  test("is ended when it works although nobody asked, or writes without end", async () => {
    for (const after of ["work", "work-at-once", "garbage"]) {
      const { process: agent, say, left } = await start();
      const { outcome, events } = await say(`scenario: restless {"after": "${after}"}`);
      expect(outcome).toMatchObject({ ok: true, text: "Done." });
      expect(events.at(-1)?.type).toBe("result");
      await agent.ended;
      expect(await left()).toEqual([]);
    }
  });

  test("may write a little, of which the next turn has nothing, and reports its end", async () => {
    const { process: agent, say } = await start();
    await say('scenario: restless {"after": "late-result"}');
    const { outcome, events } = await say(chat({ text: "Mine." }));
    expect(outcome).toMatchObject({ ok: true, text: "Mine." });
    expect(events.filter(({ type }) => type === "result")).toHaveLength(1);
    process.kill(agent.pid, "SIGKILL");
    await agent.ended;
    expect(agent.isIdle()).toBe(false);
  });

  test("leaves nothing when it is ended, also called twice, deaf or with children of its own", async () => {
    const { process: agent, say, left } = await start();
    await say('scenario: grandchildren {"deaf": true, "then": "result"}');
    expect((await left()).length).toBeGreaterThan(1);
    await Promise.all([agent.end({ graceSeconds: 0.1 }), agent.end()]);
    await agent.ended;
    expect(await left()).toEqual([]);
  });
});
