import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runAsking, sqlite } from "../../../test/fake-agent/asking.ts";
import { bothClis } from "../../../test/agent-clis.ts";
import { startFakeModel, type FakeModel } from "../../../test/fake-model/fake-model.ts";

/** The real CLI against the scripted model on loopback: what the fake agent imitates is checked against the original. */
let model: FakeModel;
beforeAll(async () => {
  model = await startFakeModel({ token: "canary-token" });
});
afterAll(() => model.close());

const runWith =
  (agentCliBinary: string) =>
  (prompt: string, options: Parameters<typeof runAsking>[1] = {}) =>
    runAsking(prompt, {
      ...options,
      settings: { agentCliBinary, modelBaseUrl: model.url, modelAuthToken: "canary-token" },
      launch: { bypassPermissions: true, args: ["--model=sonnet", "--dangerously-skip-permissions"] },
    });

describe.each(bothClis)("$which CLI", ({ cli }) => {
  const run = runWith(cli);

  describe("a question", () => {
    test("is answered while the process waits", async () => {
      const { outcome, asked, answer } = await run("scenario: ask", { replies: [sqlite] });
      expect(outcome).toMatchObject({ ok: true, deferred: false, text: "Done." });
      expect(asked).toMatchObject([
        {
          id: expect.stringMatching(/^toolu_/),
          kind: "question",
          questions: [
            {
              question: "Which database?",
              header: "Database",
              options: [{ label: "Postgres", description: "A server" }, { label: "SQLite" }],
              multi_select: false,
            },
          ],
          plan: null,
        },
      ]);
      expect(answer).toContain('"Which database?"="SQLite"');
    });

    test("that is deferred is asked again by the next process, as often as it takes, and then answered", async () => {
      const first = await run("scenario: ask", { replies: [{ kind: "defer" }] });
      expect(first.outcome).toMatchObject({ ok: true, deferred: true, exitCode: 0 });
      const resume = first.outcome.sessionId!;
      const { directory } = first;
      const second = await run("", { directory, resume, replies: [{ kind: "defer" }] });
      expect(second.outcome).toMatchObject({ ok: true, deferred: true });
      const third = await run("", { directory, resume, replies: [sqlite] });
      expect(third.outcome).toMatchObject({ ok: true, deferred: false, text: "Done." });
      expect(new Set([first, second, third].flatMap(({ asked }) => asked.map(({ id }) => id))).size).toBe(1);
      expect(third.answer).toContain('"Which database?"="SQLite"');
    });
  });

  test("a question beside other calls is asked once, alone; a call that needs a permission is refused", async () => {
    const beside = await run('scenario: ask {"sister": true}', { replies: [sqlite] });
    expect(beside.asked).toHaveLength(1);
    expect(beside.answer).toContain('"Which database?"="SQLite"');
    const danger = await run('scenario: bash {"command": "false && rm -rf /"}');
    expect(danger.outcome).toMatchObject({ ok: true, text: expect.stringContaining("needs the permission") });
    expect(danger.events).toContainEqual({
      type: "warning",
      message: expect.stringMatching(/refused a call of Bash .*: false && rm -rf \/$/),
    });
  });

  test("a question that was held when its process was killed is lost, which the next process says at once", async () => {
    const stop = new AbortController();
    const killed = await run("scenario: ask", {
      turn: { signal: stop.signal },
      onAsk: () => stop.abort("killed"),
    });
    const { directory, outcome } = killed;
    const lost = await run("", { directory, resume: outcome.sessionId! });
    expect(lost.outcome).toMatchObject({ ok: false, prompted: false, retryable: true });
  });

  describe("a plan", () => {
    test("is sent back, then approved with words, and carried out in the profile's mode", async () => {
      const { outcome, asked, answer, events } = await run("scenario: plan", {
        asks: { question: true, plan: true },
        replies: [
          { kind: "send_back", feedback: "Use JSON." },
          { kind: "approve", feedback: "Be quick.", plan: null },
        ],
      });
      expect(outcome).toMatchObject({ ok: true, deferred: false, text: "Done." });
      expect(asked).toMatchObject([
        { kind: "plan", plan: "# Plan\n1. Write the file.", questions: [] },
        { kind: "plan", plan: "# Plan\n1. Write the file.\nUse JSON." },
      ]);
      expect(asked[0]!.id).not.toBe(asked[1]!.id);
      expect(answer).toContain("Use JSON.");
      expect(answer).toContain("## Words of the user\n\nBe quick.");

      expect(events.filter(({ type }) => type === "warning")).toEqual([]);
    });

    test("that is deferred is approved with words, which do not take its place", async () => {
      const asks = { question: true, plan: true };
      const first = await run("scenario: plan", { asks, replies: [{ kind: "defer" }] });
      const { directory, outcome } = first;
      const { answer } = await run("", {
        asks,
        directory,
        resume: outcome.sessionId!,
        replies: [{ kind: "approve", feedback: "Be quick.", plan: null }],
      });
      expect(answer).toMatch(
        /(# Plan\n1\. Write the file\.|as you have told it\.)\n\n## Words of the user\n\nBe quick\./,
      );
    });
  });
});
