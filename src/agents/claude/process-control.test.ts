import { describe, expect, test } from "vitest";
import type { AgentEvent } from "../../contract/event.ts";
import { converse, type Conversation, type Said } from "../../../test/fake-agent/converse.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { until } from "../../../test/until.ts";

/** A process that is up: whether it answers an interrupt in time must not hang on how long it takes to start. */
const start = async (options: Omit<Parameters<typeof converse>[0], "directory"> = {}) => {
  const talk = await converse({ directory: await temporaryDirectory(), ...options });
  await talk.say("scenario: noop");
  return talk;
};

/** Says something and aborts the turn at its first event of the kind. */
const sayAndAbort = async (
  { say }: Conversation,
  text: string,
  type: AgentEvent["type"] = "text",
): Promise<Said> => {
  const stop = new AbortController();
  return say(text, {
    signal: stop.signal,
    onEvent: (event) => {
      if (event.type === type) stop.abort(new Error("the caller left"));
    },
  });
};

const pidOf = async ({ say }: Conversation): Promise<unknown> =>
  (JSON.parse((await say("scenario: echo")).outcome.text) as { pid: number }).pid;

describe("the caller's signal", () => {
  test("interrupts the turn, also while the agent is silent; the process is idle at once and takes the next", async () => {
    const talk = await start();
    const { outcome, events } = await sayAndAbort(talk, "scenario: sleep");
    expect(outcome).toMatchObject({ ok: false, reason: null, retryable: false });
    expect(outcome.error).toMatch(/^The run was ended by the service: the caller left\./);
    expect(events.filter(({ type }) => type === "result")).toHaveLength(1);
    expect(talk.process.isIdle()).toBe(true);
    const next = await talk.say('scenario: chat {"steps": [{"text": "Mine."}]}');
    expect(next.outcome).toMatchObject({ ok: true, text: "Mine.", costUsd: 0.0123 });

    const stop = new AbortController();
    const silent = talk.say("scenario: hang", { signal: stop.signal });
    stop.abort();
    expect((await silent).outcome).toMatchObject({ ok: false, reason: null });

    // One that comes with the result changes nothing.
    const done = await sayAndAbort(talk, "scenario: noop", "result");
    expect(done.outcome).toMatchObject({ ok: true, reason: null });

    // Already aborted: the agent gets nothing.
    const before = talk.process.turns();
    const left = await talk.say("scenario: noop", { signal: AbortSignal.abort("left") });
    expect(left.outcome).toMatchObject({ ok: false, reason: null, error: expect.stringContaining("left") });
    expect(left.events).toEqual([]);
    expect(talk.process.turns()).toBe(before);

    const late = await talk.say("scenario: sleep", { timeoutSeconds: 0.3 });
    expect(late.outcome).toMatchObject({ ok: false, reason: "timeout", retryable: false });
    expect(late.outcome.error).toContain("time limit of 0.3 s. Raise `timeout` of");
    expect(await pidOf(talk)).toBe(talk.process.pid);
  });

  test("ends a process that does not listen, with all it started: by TERM, else by KILL", async () => {
    await Promise.all(
      ["interrupt-deaf", 'interrupt-deaf {"ignoreTerm": true}', 'interrupt-deaf {"leave": true}'].map(
        async (scenario) => {
          const talk = await start();
          const { outcome } = await sayAndAbort(talk, `scenario: ${scenario}`);
          expect(outcome).toMatchObject({ ok: false, reason: null });
          expect(talk.process.isIdle()).toBe(false);
          expect(await talk.left()).toEqual([]);
        },
      ),
    );
  });
});

describe("the clocks", () => {
  test("an agent that says nothing, or nothing more, is interrupted as stalled", async () => {
    const [mute, silent] = await Promise.all([
      start({ settings: { agentCliFirstOutputTimeout: 1, agentCliIdleTimeout: 0 } }),
      start({ settings: { agentCliFirstOutputTimeout: 0, agentCliIdleTimeout: 0.3 } }),
    ]);
    const [never, nomore] = await Promise.all([
      mute.say("scenario: hang"),
      silent.say('scenario: hang {"after": 2}'),
    ]);
    expect(never.outcome).toMatchObject({ ok: false, reason: "stalled", retryable: true });
    expect(never.outcome.error).toContain("did not begin the turn");
    expect(nomore.outcome).toMatchObject({ ok: false, reason: "stalled", text: "Piece 0. \nPiece 1." });
    expect(nomore.outcome.error).toContain("SERVICE_AGENT_CLI_IDLE_TIMEOUT");
    expect(await pidOf(mute)).toBe(mute.process.pid);
  });

  test.each(["control", "started"])(
    "an agent that answers a later turn only with lines about itself (%s) is interrupted",
    async (own) => {
      const talk = await start({ settings: { agentCliFirstOutputTimeout: 0.5 } });
      expect((await talk.say("scenario: noop")).outcome).toMatchObject({ ok: true });
      const { outcome } = await talk.say(`scenario: hang ${JSON.stringify({ own })}`);
      expect(outcome).toMatchObject({ ok: false, reason: "stalled" });
    },
  );

  test("a process that waits is not under any of them", async () => {
    const settings = { agentCliFirstOutputTimeout: 0.05, agentCliIdleTimeout: 0.05 };
    const talk = await converse({ directory: await temporaryDirectory(), settings });
    const other = await start();
    await other.say('scenario: chat {"steps": [{"ms": 300}, {"text": "Later."}]}');
    expect(talk.process.isIdle()).toBe(true);
  });
});

test("a process that is ended in the middle of a turn ends the turn without a reason of the agent's", async () => {
  const talk = await start();
  let heard = false;
  const running = talk.say("scenario: sleep", { onEvent: () => (heard = true) });
  await until(() => heard);
  await talk.process.end({ graceSeconds: 1 });
  const { outcome } = await running;
  expect(outcome).toMatchObject({ ok: false, reason: null, error: expect.stringContaining("was ended") });
  expect(await talk.left()).toEqual([]);
});
