import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { message, runTelling } from "../../../test/fake-agent/telling.ts";
import { runAsking, sqlite } from "../../../test/fake-agent/asking.ts";
import { fakeSettings } from "../../../test/fake-agent/run.ts";
import { until } from "../../../test/until.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import type { AgentProcess } from "../agent.ts";

const noop = (text: string): string => `${text}\nscenario: noop`;
const heardIn = async (directory: string): Promise<string> => readFile(join(directory, "heard.txt"), "utf8");

describe("what is said while a turn runs", () => {
  test("is heard between two steps, in order, and told as it is heard; the turn has one result", async () => {
    const texts = ["/clear\u001b[2J", "``` three", "and four"];
    const { outcome, events, heard, directory } = await runTelling('scenario: listen {"messages": 3}', {
      tell: async ({ say }) => {
        for (const text of texts) expect(await say(message(text))).toBe(true);
      },
    });
    expect(outcome).toMatchObject({ ok: true, exitCode: 0 });
    expect(heard).toEqual(texts);
    // A slash would be a command of the CLI's own.
    expect(await heardIn(directory)).toBe("\u200b/clear\u001b[2J\n``` three\nand four\n");
    expect(events.filter(({ type }) => type === "result")).toHaveLength(1);
    expect(events.filter(({ type }) => type === "message")[1]).toMatchObject({
      when: "next",
      status: "taken",
    });
  });

  test("later is a turn after the others, and its result counts; the costs of all are added up", async () => {
    const { outcome, heard } = await runTelling('scenario: listen {"messages": 1}', {
      tell: async ({ say }) => {
        await say(message('At last\nscenario: chat {"steps": [{"text": "The last word."}]}', "later"));
        await say(message("First"));
      },
    });
    expect(heard[0]).toBe("First");
    expect(heard[1]).toContain("At last");
    expect(outcome).toMatchObject({ ok: true, text: "The last word.", usage: { input_tokens: 200 } });
    expect(outcome.costUsd).toBeCloseTo(2 * 0.0123);
  });

  test("is heard in the turn of a later one, too, which may take longer than the exit after a result", async () => {
    const { outcome, heard } = await runTelling("scenario: listen", {
      settings: { agentCliResultGrace: 1 },
      tell: async ({ say }, taken) => {
        await say(message("Then\nscenario: listen", "later"));
        await say(message("First"));
        await until(() => taken.length === 2);
        await delay(1500);
        await say(message("Last"));
      },
    });
    expect(heard).toEqual(["First", "Then\nscenario: listen", "Last"]);
    expect(outcome).toMatchObject({ ok: true, text: "Heard: Last" });
  });

  test("now cuts the turn off, whose half text is never the answer", async () => {
    const cut = await runTelling("scenario: sleep", {
      tell: ({ say }) => say(message('Stop\nscenario: chat {"steps": [{"text": "Stopped."}]}', "now")),
    });
    expect(cut.outcome).toMatchObject({ ok: true, text: "Stopped." });
    const results = cut.events.flatMap((event) =>
      event.type === "result" ? [[event.ok, event.subtype]] : [],
    );
    expect(results).toEqual([
      [false, "cut_off"],
      [true, "success"],
    ]);
    const died = await runTelling("scenario: sleep", {
      tell: ({ say }) => say(message("Stop\nscenario: die", "now")),
    });
    expect(died.outcome).toMatchObject({ ok: false, reason: "agent_exit" });
    expect(died.outcome.error).toContain("killed by SIGKILL before it gave a result");
  });

  test("can be taken back until it is heard, and not said after the end", async () => {
    const first = message("First");
    const back: boolean[] = [];
    let known: AgentProcess | null = null;
    const { heard } = await runTelling('scenario: listen {"messages": 2}', {
      tell: async (process) => {
        known = process;
        const last = message("Never mind", "later");
        for (const one of [first, last, message("Second")]) await process.say(one);
        back.push(await process.takeBack(last.id), await process.takeBack(last.id));
      },
    });
    expect(heard).toEqual(["First", "Second"]);
    expect(back).toEqual([true, false]);
    expect(await known!.say(message("Too late"))).toBe(false);
    expect(await known!.takeBack(first.id)).toBe(false);
  });

  test("in a session that has it already is not said again, whichever way it was said", async () => {
    const inside = message("Inside");
    const turn = message(noop("A turn"), "later");
    const tell = async ({ say }: AgentProcess): Promise<void> => {
      for (const one of [inside, turn]) expect(await say(one)).toBe(true);
    };
    const first = await runTelling("scenario: listen", { tell });
    const more = message("More");
    const second = await runTelling("scenario: listen", {
      directory: first.directory,
      resume: first.outcome.sessionId!,
      tell: async (process) => {
        await tell(process);
        await process.say(more);
      },
    });
    expect(second.heard).toEqual(["Inside", noop("A turn"), "More"]);
    expect(await heardIn(first.directory)).toBe("Inside\nMore\n");
    expect(second.events.filter(({ type }) => type === "result")).toHaveLength(1);
  });

  test("leaves a deferred question as it is, and is heard once that is answered", async () => {
    const directory = await temporaryDirectory();
    const one = message("Be quick");
    const common = { directory, start: { hears: true, asks: { question: true, plan: false } } };
    let first: AgentProcess | null = null;
    const deferred = await runAsking("scenario: ask", {
      ...common,
      onStart: (process) => (first = process),
      onAsk: (ask) => void first!.say({ ...one, when: "now" }).then(() => ask.reply({ kind: "defer" })),
    });
    expect(deferred.outcome).toMatchObject({ ok: true, deferred: true });
    const asks: unknown[] = [];
    const answered = await runAsking("", {
      directory,
      resume: deferred.outcome.sessionId!,
      replies: [sqlite],
      start: { ...common.start },
      turn: { content: [] },
      onAsk: (ask) => asks.push(ask.id),
      onStart: (process) => void process.say(one),
    });
    expect(asks).toEqual(deferred.asked.map(({ id }) => id));
    expect(answered.answer).toContain("SQLite");
    expect(answered.events.filter(({ type }) => type === "message")).toHaveLength(1);
  });

  test("is refused by a CLI that is too old, with a warning that says what to do", async () => {
    const directory = await temporaryDirectory();
    const old = join(directory, "old-agent");
    const { agentCliBinary } = fakeSettings(directory);
    const script = `#!/bin/sh\n[ "$1" = --version ] && exec echo 2.1.196\nexec ${agentCliBinary} "$@"\n`;
    await writeFile(old, script, { mode: 0o755 });
    let said: unknown;
    const { events, heard } = await runTelling('scenario: paced {"steps": 3}', {
      directory,
      settings: { agentCliBinary: old },
      tell: async ({ say }) => (said = await say(message("Hello"))),
    });
    expect([said, heard]).toEqual([false, []]);
    expect(events).toContainEqual({
      type: "warning",
      message: expect.stringMatching(/told nothing while it works: .*older than 2\.1\.197.*; update it/),
    });
  });
});
