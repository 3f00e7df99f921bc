import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runAsking, sqlite } from "../../../test/fake-agent/asking.ts";
import type { AgentEvent } from "../../contract/event.ts";

const both = { question: true, plan: true };
const bypass = { bypassPermissions: true, args: ["--model=sonnet", "--dangerously-skip-permissions"] };

const warnings = (events: AgentEvent[]): string[] =>
  events.flatMap((event) => (event.type === "warning" ? [event.message] : []));

describe("a question", () => {
  test("is answered, by a label, own words or several labels, to the text that was asked", async () => {
    const question = (text: string) => ({ question: text, header: "h", options: [], multiSelect: true });
    const questions = [question("Which key, canary-key?"), question("Which parts?"), question("Why?")];
    const run = await runAsking(`scenario: ask ${JSON.stringify({ questions })}`, {
      secrets: ["canary-key"],
      replies: [
        {
          kind: "answers",
          answers: { "Which key, ***?": "none at all", "Which parts?": ["API", "Docs"] },
        },
      ],
    });
    expect(run.outcome).toMatchObject({ ok: true, deferred: false });
    expect(run.asked).toMatchObject([
      {
        id: expect.stringMatching(/^toolu_/),
        kind: "question",
        plan: null,
        questions: [{ question: "Which key, ***?", header: "h", multi_select: true }, {}, {}],
      },
    ]);
    expect(run.answer).toContain('"Which key, canary-key?"="none at all", "Which parts?"="API, Docs". You');
    expect(JSON.stringify(run.events)).not.toContain("canary");
  });

  test("can be sent back with words, and goes to nobody where nobody listens", async () => {
    const sent = await runAsking("scenario: ask", { replies: [{ kind: "send_back", feedback: "Choose." }] });
    expect(sent.answer).toBe("Choose.\n");
    const alone = await runAsking("scenario: ask", { turn: { onAsk: undefined as never } });
    expect(alone.outcome).toMatchObject({ ok: true });
    expect(alone.answer).toContain("Nobody can be asked here.");
  });

  test.each([
    ["by the hook", {}],
    ["by the permission alone, where the process is ended", { hookless: true }],
  ])("that is deferred is asked again with the same id, %s", async (_how, options) => {
    const first = await runAsking(`scenario: ask ${JSON.stringify(options)}`, {
      replies: [{ kind: "defer" }],
    });
    expect(first.outcome).toMatchObject({ ok: true, deferred: true, exitCode: 0 });
    const { directory } = first;
    const resume = first.outcome.sessionId!;
    const second = await runAsking("", { directory, resume, replies: [{ kind: "defer" }] });
    expect(second.outcome).toMatchObject({ ok: true, prompted: true, deferred: true, reason: null });
    const third = await runAsking("", { directory, resume, replies: [sqlite] });
    expect(third.outcome).toMatchObject({ ok: true, deferred: false, sessionId: resume });
    const ids = [first, second, third].map(({ asked }) => asked.map(({ id }) => id));
    expect(ids).toEqual([ids[0], ids[0], ids[0]]);
    expect(third.answer).toContain('"Which database?"="SQLite"');
  });

  test("that was held when its process was killed is lost, and the answer reaches the agent as text", async () => {
    const stop = new AbortController();
    const first = await runAsking("scenario: ask", {
      turn: { signal: stop.signal },
      onAsk: () => stop.abort("killed"),
    });
    expect(first.outcome).toMatchObject({ ok: false, deferred: false, reason: null });
    const { directory } = first;
    const resume = first.outcome.sessionId!;
    const lost = await runAsking("", { directory, resume });
    expect(lost.outcome).toMatchObject({ ok: false, prompted: false, retryable: true });
    expect(lost.outcome.error).toContain("The agent's question is lost");
    const second = await runAsking("scenario: remember", { directory, resume });
    expect(second.asked).toEqual([]);
    expect(second.outcome.text).toBe("I remember 1 earlier prompts.");
  });

  test("has no limit of silence but that of the turn; afterwards silence counts again", async () => {
    const settings = { agentCliIdleTimeout: 1, agentCliFirstOutputTimeout: 20 };
    const late = await runAsking("scenario: ask", {
      settings,
      onAsk: (ask) => void setTimeout(() => ask.reply(sqlite), 2000),
    });
    expect(late.outcome).toMatchObject({ ok: true });
    const silent = await runAsking('scenario: ask {"then": "hang"}', { settings, replies: [sqlite] });
    expect(silent.outcome).toMatchObject({ ok: false, reason: "stalled" });
    const never = await runAsking("scenario: ask", { settings, launch: { timeoutSeconds: 3 } });
    expect(never.outcome).toMatchObject({ ok: false, reason: "timeout" });
  });

  test("that is asked beside other calls must be asked alone, so that its answer is not lost", async () => {
    const run = await runAsking('scenario: ask {"sisters": true}', { replies: [sqlite] });
    expect(run.asked).toHaveLength(1);
    expect(run.events).toContainEqual(
      expect.objectContaining({ tool_use_id: "toolu_asked", content: expect.stringContaining("Not asked") }),
    );
    expect(run.answer).toContain('"Which database?"="SQLite"');
  });

  test("counts its first reply alone, and none after the turn", async () => {
    const run = await runAsking("scenario: ask", { replies: [sqlite], onAsk: (ask) => ask.reply(sqlite) });
    expect(run.outcome).toMatchObject({ ok: true, deferred: false });
    run.asked[0]!.reply({ kind: "defer" });
  });

  test("does not exist for a run that may not ask", async () => {
    for (const asks of [undefined, { question: false, plan: false }, { question: false, plan: true }]) {
      const run = await runAsking('scenario: ask {"then": "noop"}', { start: { asks: asks as never } });
      expect(run.outcome).toMatchObject({ ok: true });
      expect(run.asked).toEqual([]);
      expect(JSON.stringify(run.events)).toContain("No such tool available: AskUserQuestion");
    }
  });
});

describe("a plan", () => {
  test("is sent back, then approved with words, and carried out in the profile's mode", async () => {
    const { outcome, asked, answer } = await runAsking("scenario: plan", {
      asks: both,
      launch: bypass,
      env: {},
      replies: [
        { kind: "send_back", feedback: "2. Test it." },
        { kind: "approve", feedback: "Be quick.", plan: null },
      ],
    });
    expect(outcome).toMatchObject({ ok: true, deferred: false });
    expect(asked).toMatchObject([
      { kind: "plan", questions: [], plan: "# Plan\n1. Write the file." },
      { kind: "plan", questions: [], plan: "# Plan\n1. Write the file.\n2. Test it." },
    ]);
    expect(asked[0]!.id).not.toBe(asked[1]!.id);
    expect(answer).toContain("1. Write the file.\n2. Test it.\n\n## Words of the user\n\nBe quick.");
  });

  test("that is only said is shown as it was said, and words at its approval do not take its place", async () => {
    const { asked, answer } = await runAsking('scenario: plan {"text": "Step 1.", "bare": true}', {
      asks: both,
      launch: bypass,
      env: {},
      replies: [{ kind: "approve", feedback: "Be quick.", plan: null }],
    });
    expect(asked).toMatchObject([{ kind: "plan", plan: "Step 1." }]);
    expect(answer).toMatch(/User has approved your plan\.[^]*Step 1\.\n\n## Words of the user\n\nBe quick\./);
  });

  test("is deferred, asked again, changed and approved", async () => {
    const launch = { args: ["--permission-mode=acceptEdits"] };
    const first = await runAsking("scenario: plan", { asks: both, launch, replies: [{ kind: "defer" }] });
    expect(first.outcome).toMatchObject({ ok: true, deferred: true });
    const second = await runAsking("", {
      asks: both,
      launch,
      directory: first.directory,
      resume: first.outcome.sessionId!,
      replies: [{ kind: "approve", feedback: "", plan: "# Another" }],
    });
    expect(second.asked).toMatchObject([{ id: first.asked[0]!.id, plan: first.asked[0]!.plan }]);
    expect(second.answer).toMatch(/Approved Plan \(edited by user\):\n# Another\n$/);
  });
});

describe("what the CLI requests besides", () => {
  test("a dangerous call is refused, with a warning that names it", async () => {
    const command = `rm -rf / canary-key ${"x".repeat(300)}`;
    const run = await runAsking(`scenario: danger ${JSON.stringify({ command })}`, {
      secrets: ["canary-key"],
    });
    expect(run.outcome).toMatchObject({ ok: true, text: expect.stringContaining("needs the permission") });
    const [warning, ...more] = warnings(run.events);
    expect(warning).toMatch(/Bash .*critical path: \/\): rm -rf \/ \*\*\* x+$/);
    expect(warning!.length).toBeLessThan(400);
    expect(more).toEqual([]);
  });

  test("an unknown request gets an error, and the agent goes on", async () => {
    const { outcome } = await runAsking('scenario: request {"subtype": "novelty"}');
    expect(JSON.parse(outcome.text)).toMatchObject({
      subtype: "error",
      error: "Unsupported control request subtype: novelty",
    });
    const malformed = await runAsking('scenario: request {"subtype": "can_use_tool"}');
    expect(JSON.parse(malformed.outcome.text)).toMatchObject({ subtype: "error" });
  });
});

describe("a session that goes on", () => {
  const goOn = (directory: string, resume: string | null) =>
    runAsking("", { directory, resume: String(resume), start: { goesOn: true } });
  const prompts = async (directory: string, session: string | null): Promise<string[]> => {
    const projects = join(directory, ".config-of-job", "projects");
    const [project = ""] = await readdir(projects);
    const lines = (await readFile(join(projects, project, `${session}.jsonl`), "utf8")).split("\n");
    return lines
      .filter((line) => line.startsWith('{"type":"user"'))
      .map((line) => /"text":"(.*?)"/.exec(line)?.[1] ?? "");
  };

  test("whose request was refused does so, and has its prompt once", async () => {
    const first = await runAsking('scenario: api-error {"status": 529, "times": 1}');
    expect(first.outcome).toMatchObject({ ok: false, reason: "api_error", apiStatus: 529 });
    const { directory, outcome } = first;
    const second = await goOn(directory, outcome.sessionId);
    expect(second.outcome).toMatchObject({ ok: true, text: "Done after all." });
    expect(await prompts(directory, outcome.sessionId)).toHaveLength(1);
  });

  test("that ended otherwise is asked to", async () => {
    const { directory, outcome } = await runAsking("scenario: work");
    expect((await goOn(directory, outcome.sessionId)).outcome).toMatchObject({ ok: true, prompted: true });
    expect(await prompts(directory, outcome.sessionId)).toEqual(["scenario: work", "Continue."]);
  });
});
