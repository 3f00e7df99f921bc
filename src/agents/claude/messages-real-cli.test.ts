import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { message as answer, text, toolUse } from "../../../test/fake-model/answer.ts";
import { bothClis } from "../../../test/agent-clis.ts";
import { startFakeModel, type FakeModel } from "../../../test/fake-model/fake-model.ts";
import { message, runTelling } from "../../../test/fake-agent/telling.ts";

/** The real CLI against the scripted model on loopback: what the fake agent imitates is checked against the original. */
let model: FakeModel;
beforeAll(async () => {
  model = await startFakeModel({ token: "canary-token" });
});
afterAll(() => model.close());

/** A model that first runs `command`, and then says how many requests it had; with what it was asked, request by request. */
const runWith =
  (agentCliBinary: string) => async (command: string, options: Parameters<typeof runTelling>[1]) => {
    model.requests.length = 0;
    let count = 0;
    using _ = model.script(() => {
      count += 1;
      if (count > 1) return answer([text(`Request ${count}.`)]);
      return answer([toolUse("Bash", { command, description: "Work" })]);
    });
    const done = await runTelling("Begin", {
      settings: { agentCliBinary, modelBaseUrl: model.url, modelAuthToken: "canary-token" },
      launch: { bypassPermissions: true, args: ["--model=sonnet", "--dangerously-skip-permissions"] },
      at: "tool_use",
      ...options,
    });
    const asked = model.requests.flatMap(({ body }) => {
      const { messages } = (body ?? {}) as { messages?: { role: string; content: unknown }[] };
      if (messages === undefined) return [];
      const answered = messages.findLastIndex(({ role }) => role === "assistant");
      return [JSON.stringify(messages.slice(answered + 1).map(({ content }) => content))];
    });
    return { ...done, asked };
  };

describe.each(bothClis)("$which CLI", ({ cli }) => {
  const run = runWith(cli);

  test("next is heard with the result of the tool, in order, and a slash is no command; what is taken back is not", async () => {
    const never = message("Never");
    let isBack: unknown;
    const { outcome, heard, asked } = await run("sleep 1", {
      tell: async ({ say, takeBack }) => {
        for (const one of [message("One"), never, message("/clear"), message(" /cost"), message("Five")])
          await say(one);
        isBack = await takeBack(never.id);
      },
    });
    expect(isBack).toBe(true);
    expect(heard).toEqual(["One", "/clear", " /cost", "Five"]);
    expect(outcome).toMatchObject({ ok: true, text: "Request 2.", numTurns: 2 });
    expect(asked).toHaveLength(2);
    expect(asked[1]).toMatch(/while you were working:.*One.*\/clear.*\/cost.*Five/);
    expect(asked.join("")).not.toContain("Never");
  });

  test("later is heard after the answer, and now cuts the turn off, whose text is not the answer", async () => {
    const later = await run("true", { tell: ({ say }) => say(message("Later", "later")) });
    expect(later.outcome).toMatchObject({ ok: true, text: "Request 3.", numTurns: 3 });
    expect(later.asked.map((each) => each.includes("Later"))).toEqual([false, false, true]);
    const now = await run("sleep 30", { tell: ({ say }) => say(message("Now", "now")) });
    expect(now.outcome).toMatchObject({ ok: true, text: "Request 2." });
    expect(now.heard).toEqual(["Now"]);
    expect(now.outcome.durationMs).toBeLessThan(30_000);
  });

  test("a resumed session does not hear again what it has heard, whichever way", async () => {
    const all = [message("Inside"), message("After", "later")];
    const sayAll = async ({
      say,
    }: Parameters<Parameters<typeof runTelling>[1]["tell"]>[0]): Promise<void> => {
      for (const one of all) await say(one);
    };
    const first = await run("sleep 1", { tell: sayAll });
    expect(first.heard).toEqual(["Inside", "After"]);
    const { heard, asked } = await run("true", {
      directory: first.directory,
      resume: first.outcome.sessionId!,
      tell: sayAll,
    });
    expect(heard).toEqual(["Inside", "After"]);
    expect(asked).toHaveLength(2);
  });
});
