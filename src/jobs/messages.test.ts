import { describe, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { MessageInput } from "../contract/message.ts";
import { toJob } from "../store/job-record.ts";
import { startEngine, untilInterrupted } from "./engine.fixture.ts";
import type { Execute, Run } from "./run.ts";

type Engine = Awaited<ReturnType<typeof startEngine>>;

const code = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "ok",
    (error: { code?: string }) => error.code,
  );

/** The run of a job that goes on until it is told to end, with its session on record. */
const startRun = async () => {
  const { promise: running, resolve } = Promise.withResolvers<Run>();
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const execute: Execute = async (_record, run) => {
    await run.record({ session_id: "00000000-0000-4000-8000-000000000001" });
    resolve(run);
    await over;
    return { kind: "succeeded", patch: {} };
  };
  const engine = await startEngine({ execute });
  engine.work();
  const { id } = await engine.submit();
  return { ...engine, engine, id, run: await running, end };
};

const ended = ({ store }: Engine, id: string) =>
  until(async () => {
    const record = await store.get(id);
    return record?.ended_at === null ? null : record;
  });

const stored = async ({ store }: Engine, id: string) =>
  ((await store.get(id))?.messages ?? []).map(({ text, status, given, recalled }) =>
    [text, status, given && "given", recalled && "recalled"].filter(Boolean).join(" "),
  );

describe("a message to a job", () => {
  test("is kept in order as long as nothing runs, and shown without what is the service's own", async () => {
    const engine = await startEngine();
    const { id } = await engine.submit();
    const first = await engine.say(id, "One");
    await engine.say(id, "Two", { when: "now" });
    expect(first).toMatchObject({ success: true, message: { text: "One", when: "next", status: "queued" } });
    const job = toJob((await engine.store.get(id))!);
    expect(job.messages.map(({ text, when }) => [text, when])).toEqual([
      ["One", "next"],
      ["Two", "now"],
    ]);
    expect(Object.keys(job.messages[0]!)).toEqual(["id", "text", "when", "status", "at"]);
    expect(job.warnings.join()).not.toContain("One");
    await engine.jobs.cancel(id);
    const cancelled = toJob((await engine.store.get(id))!);
    expect(cancelled.warnings.join()).toMatch(
      /ended before its agent had heard "One", "Two": svc say .* "…"/,
    );
  });

  test("wakes the run that it is for", async () => {
    const { engine, id, run, say, end } = await startRun();
    const seen: string[] = [];
    const over = new AbortController();
    const watching = (async () => {
      for await (const all of run.messages.watch(over.signal)) seen.push(all.map(({ text }) => text).join());
    })();
    await until(() => seen.length === 1);
    await say(id, "One");
    await until(() => seen.at(-1) === "One");
    over.abort();
    await watching;
    end();
    await ended(engine, id);
    expect(await run.messages.change(() => ({ status: "taken" }))).toBe(false);
  });

  test("with the same key is the same message, also after the end; another text is a conflict", async () => {
    const { engine, id, say, end } = await startRun();
    const key = { idempotencyKey: "once" };
    const first = await say(id, "One", {}, key);
    expect(await say(id, "One", {}, key)).toEqual(first);
    expect(await code(say(id, "Two", {}, key))).toBe("idempotency_conflict");
    expect(await code(say(id, "One", { when: "now" }, key))).toBe("idempotency_conflict");
    end();
    await ended(engine, id);
    expect(await say(id, "One", {}, key)).toEqual(first);
    expect(await stored(engine, id)).toEqual(["One queued"]);
  });

  test("that has ended continues it once per key; one whose agent never began cannot be continued", async () => {
    const { engine, id, say, end } = await startRun();
    end();
    await ended(engine, id);
    const key = { idempotencyKey: "more" };
    const [first, second] = [
      await say(id, "More", { when: "now" }, key),
      await say(id, "More", { when: "now" }, key),
    ];
    expect(first).toMatchObject({ success: true, continued: true, job: { task: "More", messages: [] } });
    expect(first.job?.session_id).toBe((await engine.store.get(id))?.session_id);
    expect(second.job?.id).toBe(first.job?.id);
    const none = await startEngine();
    const queued = await none.submit();
    await none.jobs.cancel(queued.id);
    expect(await code(none.say(queued.id, "More"))).toBe("nothing_to_continue");
    expect(await code(none.say("00000000-0000-4000-8000-000000000009", "More"))).toBe("job_not_found");
  });

  test("is one of a hundred at most, and neither blank nor longer than 32 KB", async () => {
    const engine = await startEngine();
    const { id } = await engine.submit();
    for (let count = 0; count < 100; count += 1) await engine.say(id, `${count}`);
    expect(await code(engine.say(id, "more"))).toBe("invalid_request");
    const isFine = (over: object): boolean => MessageInput.safeParse({ job_id: id, ...over }).success;
    expect(
      [{}, { text: " \n" }, { text: "é".repeat(16_385) }, { text: "a", when: "soon" }].map(isFine),
    ).toEqual([false, false, false, false]);
    expect([{ text: "é".repeat(16_384) }, { text: "/clear\u0000\u001b```" }].map(isFine)).toEqual([
      true,
      true,
    ]);
  });
});

describe("a message that is taken back", () => {
  test("is withdrawn at once when no process has it, also by the beginning of its id; otherwise when its run says so", async () => {
    const { engine, id, run, say, takeBack } = await startRun();
    const [one, two, three] = await Promise.all(["One", "Two", "Three"].map((text) => say(id, text)));
    const ids = [one, two, three].map((each) => each!.message!.id);
    expect(await takeBack(id, ids[0]!.slice(0, 8))).toMatchObject({ status: "withdrawn" });
    await run.messages.change(({ id: each }) => (each === ids[0] ? {} : { given: true }));
    const asked = takeBack(id, ids[1]!);
    await until(async () => (await stored(engine, id)).includes("Two queued given recalled"));
    await run.messages.change((each) => (each.recalled ? { status: "withdrawn" } : {}));
    expect(await asked).toMatchObject({ status: "withdrawn" });
    expect(await takeBack(id, ids[0]!)).toMatchObject({ status: "withdrawn" });
  });

  test("cannot be taken back once it is taken, nor if there is none; with the job's end it is withdrawn", async () => {
    const { id, run, say, takeBack, jobs } = await startRun();
    const [taken, given] = [await say(id, "Taken"), await say(id, "Given")].map(({ message }) => message!.id);
    await run.messages.change((each) => (each.text === "Taken" ? { status: "taken" } : { given: true }));
    expect(await code(takeBack(id, taken!))).toBe("message_taken");
    expect(await code(takeBack(id, "unknown"))).toBe("message_not_found");
    expect(await code(takeBack("00000000-0000-4000-8000-000000000009", taken!))).toBe("job_not_found");
    await jobs.cancel(id);
    expect(await takeBack(id, given!)).toMatchObject({ status: "withdrawn" });
  });
});

test("messages outlive the service, in their order", async () => {
  const first = await startEngine({ execute: untilInterrupted });
  const { id } = await first.submit();
  for (const text of ["One", "Two", "Three"]) await first.say(id, text);
  const second = await startEngine({ directory: first.directory });
  expect(await stored(second, id)).toEqual(["One queued", "Two queued", "Three queued"]);
});
