import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { AgentEvent } from "../../contract/event.ts";
import { converse, textOf, type Conversation } from "../../../test/fake-agent/converse.ts";
import { bothClis } from "../../../test/agent-clis.ts";
import { startFakeModel, type FakeModel } from "../../../test/fake-model/fake-model.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { until } from "../../../test/until.ts";
import { stopLimits } from "./turn.ts";

/** The real CLI against the scripted model on loopback: what the fake agent imitates is checked against the original. */
let model: FakeModel;
beforeAll(async () => {
  model = await startFakeModel({ token: "canary-token" });
});
afterAll(() => model.close());

const startWith =
  (agentCliBinary: string) =>
  async (options: Partial<Parameters<typeof converse>[0]> = {}, args: string[] = []) =>
    converse({
      directory: await temporaryDirectory(),
      settings: { agentCliBinary, modelBaseUrl: model.url, modelAuthToken: "canary-token" },
      ...options,
      launch: {
        bypassPermissions: true,
        args: ["--model=sonnet", "--dangerously-skip-permissions", ...args],
      },
    });

type Body = { model: string; system: { text: string }[]; output_config?: { effort?: string } };

const lastRequest = () => {
  const body = model.requests.at(-1)?.body as Body;
  const system = body.system.map(({ text }) => text).join("\n");
  return { model: body.model, effort: body.output_config?.effort, system, all: JSON.stringify(body) };
};

const sayAndAbort = async ({ say }: Conversation, text: string, fits: (event: AgentEvent) => boolean) => {
  const stop = new AbortController();
  return say(text, {
    signal: stop.signal,
    onEvent: (event) => {
      if (fits(event)) stop.abort(new Error("the caller left"));
    },
  });
};

const onePixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** The text without the pieces that a warning names as dropped: the newest asks for a broken answer several times. */
const standingOf = (events: AgentEvent[]): string => {
  const dropped = events.flatMap((event) => (event.type === "warning" ? [event.dropped_block] : []));
  return textOf(events.filter((event) => event.type === "text" && !dropped.includes(event.block)));
};

describe.each(bothClis)("$which CLI", ({ cli }) => {
  const start = startWith(cli);

  test("a conversation: what was said before, system prompt, effort and cost of each turn", async () => {
    const talk = await start({}, ["--append-system-prompt=The profile says walrus."]);
    const long = `scenario: text {"text": "The word is heron."} ${"Wörter ".repeat(60_000)}`;
    const first = await talk.say(long, {
      appendSystemPrompt: "The request says osprey.",
    });
    expect(first.outcome).toMatchObject({ ok: true, text: "The word is heron.", reason: null });
    expect(first.outcome.sessionId).toBe(talk.process.sessionId);
    expect(lastRequest().all).toContain(JSON.stringify(long).slice(1, -1));
    expect(lastRequest().system).toMatch(/The profile says walrus\.\s+The request says osprey\./);

    const second = await talk.say("", {
      content: [
        { type: "image", mediaType: "image/png", base64: onePixel },
        { type: "text", text: "/cost scenario: text" },
      ],
      effort: "low",
    });
    expect(second.outcome).toMatchObject({ ok: true, text: "Done.", numTurns: 1 });
    expect(second.outcome.model).toContain("sonnet");
    expect(lastRequest()).toMatchObject({ model: expect.stringContaining("sonnet"), effort: "low" });
    for (const said of ["The word is heron.", "/cost scenario: text"])
      expect(lastRequest().all).toContain(said);
    expect(lastRequest().all).toContain('"media_type":"image/png"');
    expect(lastRequest().system).toContain("osprey");
    const [one, two] = [first.outcome.costUsd ?? 0, second.outcome.costUsd ?? 0];
    expect(one).toBeGreaterThan(0);
    expect(two).toBeGreaterThan(0);

    // It costs what a turn costs, not what the process did.
    const third = await talk.say("--help scenario: text");
    expect(lastRequest().all).toContain("--help scenario: text");
    expect(third.events.at(-1)).toMatchObject({ type: "result", cost_usd: third.outcome.costUsd });
    expect(third.outcome.costUsd).toBeLessThan(one + two);
    await talk.process.end();
    expect(await talk.left()).toEqual([]);

    const projects = join(talk.directory, ".config-of-job", "projects");
    const [file] = (await readdir(projects, { recursive: true })).filter((name) => name.endsWith(".jsonl"));
    const session = { id: talk.process.sessionId, resumeFrom: join(projects, file!) };
    const later = await start({ session });
    const resumed = await later.say("scenario: text", { appendSystemPrompt: "Resumed with a puffin." });
    expect(resumed.outcome).toMatchObject({ ok: true, sessionId: session.id });
    expect(lastRequest().all).toContain("The word is heron.");
    expect(lastRequest().system).toContain("puffin");
  });

  test("interrupted while it thinks and while a command runs, the process answers the next message", async () => {
    // The service ends a CLI that needs more than 700 ms for that. Beside other tests it may.
    const { interruptMs } = stopLimits;
    onTestFinished(() => void (stopLimits.interruptMs = interruptMs));
    stopLimits.interruptMs = 20_000;
    const talk = await start();
    const thought = "I think about it for long. ".repeat(50);
    const thinking = `scenario: thinking ${JSON.stringify({ thinking: thought, rate: 50, deltaLength: 5 })}`;
    const mused = await sayAndAbort(talk, thinking, ({ type }) => type === "thinking");
    expect(mused.outcome).toMatchObject({ ok: false, reason: null });
    expect(talk.process.isIdle()).toBe(true);

    const scripted = model.script(({ prompt, results }) =>
      prompt.includes("run it") && results.length === 0
        ? {
            kind: "message",
            blocks: [
              { type: "tool_use", name: "Bash", input: { command: "sleep 987", description: "Wait" } },
            ],
          }
        : { kind: "message", blocks: [{ type: "text", text: "Here I am." }] },
    );
    using _ = scripted;
    const ran = await sayAndAbort(talk, "run it", ({ type }) => type === "tool_use");
    expect(ran.outcome).toMatchObject({ ok: false, reason: null });
    expect(talk.process.isIdle()).toBe(true);
    // Nothing of the command is left, only the CLI itself.
    await until(async () => (await talk.left()).every((pid) => pid === talk.process.pid));

    const next = await talk.say("hello again");
    expect(next.outcome).toMatchObject({ ok: true, text: "Here I am." });
    expect(textOf(next.events)).toBe("Here I am.");
    await talk.process.end();
    expect(await talk.left()).toEqual([]);
  });

  test("a refused turn and a broken stream are followed by a good turn in the same process", async () => {
    const talk = await start();
    const broken = () => ({
      kind: "message" as const,
      blocks: [{ type: "text" as const, text: "This is the first try." }],
      deltaLength: 5,
      interrupted: { afterDeltas: 3, by: "cut" as const },
    });
    const answers: Parameters<typeof model.script>[0][] = [];
    const otherwise = () => ({
      kind: "message" as const,
      blocks: [{ type: "text" as const, text: "Quite another answer." }],
    });
    {
      // The newest asks several times.
      const refusing = model.script(() => ({ kind: "error", status: 400, message: "no such thing" }));
      const bad = await talk.say("hello");
      refusing[Symbol.dispose]();
      answers.push(broken);
      using _ = model.script((asked) => (answers.shift() ?? otherwise)(asked));
      expect(bad.outcome).toMatchObject({ ok: false, reason: "api_error", apiStatus: 400, retryable: false });
      expect(textOf(bad.events)).toBe("");
      const { events, outcome } = await talk.say("hello");
      expect(outcome).toMatchObject({ ok: true, apiStatus: null, text: "Quite another answer." });
      expect(standingOf(events)).toBe("Quite another answer.");
    }
    // The same answer again stands once.
    const text = "This answer is cut off, and then told again.";
    const { events, outcome } = await talk.say(`scenario: broken ${JSON.stringify({ text })}`);
    expect(outcome).toMatchObject({ ok: true, text });
    expect(standingOf(events)).toBe(text);
  });
});
