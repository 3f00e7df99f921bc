import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import type { StoredMessage } from "../store/job-record.ts";
import { nextFor, tellMessages, unheard } from "./messages.ts";
import { claimJob } from "./runner.fixture.ts";

const stored = (text: string, over: Partial<StoredMessage> = {}): StoredMessage => ({
  id: crypto.randomUUID(),
  text,
  when: "next",
  status: "queued",
  at: "2026-05-01T12:00:00.000Z",
  given: false,
  recalled: false,
  idempotency: null,
  ...over,
});

test.each([
  ["queued", false, false, "say"],
  ["queued", false, true, null],
  ["queued", true, false, "withdraw"],
  ["queued", true, true, "take_back"],
  ["taken", false, false, "say"],
  ["taken", false, true, null],
  ["withdrawn", false, false, null],
  ["withdrawn", true, true, null],
] as const)(
  "of a message that is %s, recalled: %s, given: %s, comes: %s",
  (status, recalled, given, next) => {
    const message = stored("One", { status, recalled });
    expect(nextFor(message, new Set(given ? [message.id] : []))).toBe(next);
  },
);

/** Says each when the agent has begun, and returns what became of all, with the events. */
const run = async (task: string, before: StoredMessage[], during: StoredMessage[] = []) => {
  const job = await claimJob(task, { messages: before });
  const done = job.execute();
  await until(async () => (await job.stored()).stages.some(({ stage }) => stage === "first_output"));
  for (const message of during) await job.say(message);
  const outcome = await done;
  const left = (await unheard(job.run)).map(({ text }) => text);
  const { messages, worktree_path } = await job.stored();
  return {
    outcome,
    left,
    messages: messages.map(({ text, status, given }) => [text, status, given]),
    heard: await readFile(join(String(worktree_path), "heard.txt"), "utf8").catch(() => ""),
    told: (await job.published()).flatMap((event) =>
      event.type === "message" ? [`${event.text} ${event.status}`] : [],
    ),
  };
};

describe("a job", () => {
  test("tells its agent what was said before and while it runs, in order, once, and says when it was heard", async () => {
    const { outcome, messages, heard, told } = await run(
      'scenario: listen {"messages": 3}',
      [stored("One", { given: true }), stored("Never", { status: "withdrawn" })],
      [stored("Two"), stored("Three")],
    );
    expect(outcome).toMatchObject({ kind: "succeeded", patch: { output: "Heard: One, Two, Three" } });
    expect(heard).toBe("One\nTwo\nThree\n");
    expect(told).toEqual(["One taken", "Two taken", "Three taken"]);
    expect(messages.map(([, status]) => status)).toEqual(["taken", "withdrawn", "taken", "taken"]);
  });

  test("says again what an earlier session has heard and this one has not, without a second event", async () => {
    const { heard, told } = await run('scenario: listen {"messages": 1}', [
      stored("One", { status: "taken" }),
    ]);
    expect([heard, told]).toEqual(["One\n", []]);
  });

  test("keeps what its agent did not hear before it ended", async () => {
    const { messages, told, left } = await run('scenario: exit-without-result {"ms": 300}', [
      stored("Late", { when: "later" }),
      stored("Back", { when: "later", recalled: true }),
    ]);
    expect(messages).toEqual([
      ["Late", "queued", false],
      ["Back", "withdrawn", false],
    ]);
    expect([told, left]).toEqual([[], ["Late"]]);
  });
});

test("a message that an agent does not give back holds up none of the others", async () => {
  const job = await claimJob("scenario: noop");
  const first = stored("One");
  await job.say(first);
  const said: string[] = [];
  const process = {
    say: async ({ text }: { text: string }) => said.push(text) > 0,
    takeBack: () => new Promise<boolean>(() => undefined),
  };
  tellMessages(job.run, process, { log: createLog("silent", (text) => text), begins: null });
  await until(() => said.includes("One"));
  await job.run.messages.change(({ id }) => (id === first.id ? { recalled: true } : {}));
  await job.say(stored("Two"));
  await until(() => said.includes("Two"));
  job.interrupt("shutdown");
});
