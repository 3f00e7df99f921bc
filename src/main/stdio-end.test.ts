import { expect, test } from "vitest";
import { startService } from "../../test/service.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { initialize, startRaw, submit } from "./stdio.fixture.ts";

const request = (id: number, method: string, params: object = {}): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });
const call = (id: number, name: string, args: object = {}): string =>
  request(id, "tools/call", { name, arguments: args });

type Told = { structuredContent: { job: { id: string; status: string } } };

test.concurrent("what has been read before the end of stdin is answered, the last line also without its end", async () => {
  const raw = startRaw(await temporaryDirectory());
  const lines = [
    request(1, "initialize", initialize),
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    call(2, "run_task", { task: "scenario: hang" }),
    call(3, "list_worktrees"),
    request(4, "initialize", { clientInfo: 5 }),
    request(6, "tools/call", { name: "list_jobs", arguments: null }),
    '{"jsonrpc":"2.0","id":7,"method":"tools/list","params":null}',
    '{"jsonrpc":"2.0","method":"notifications/initialized","params":null}',
    "null",
    request(5, "tools/list"),
  ];
  raw.child.stdin.end(lines.join("\n"));
  expect(await raw.exited).toEqual([0, null]);
  expect(raw.received().map(({ id }) => id)).toEqual(expect.arrayContaining([1, 2, 3, 4, 5, 6, 7]));
  expect(raw.received()).toHaveLength(7);
  for (const id of [6, 7]) expect(raw.received().find((answer) => answer.id === id)?.result).toBeDefined();
  const run = raw.received().find(({ id }) => id === 2)?.result;
  expect((run as Told).structuredContent.job.status).toBe("queued");
  expect(raw.received().find(({ id }) => id === 4)?.error).toMatchObject({ code: -32602 });
});

test.concurrent.each(["alone", "beside a running service"])(
  "whoever waits for a job when stdin ends is told how it is, %s",
  async (where) => {
    const home = await temporaryDirectory();
    if (where !== "alone") await startService({ home });
    const raw = startRaw(home);
    await raw.ask("initialize", initialize);
    const job_id = await submit(raw, "scenario: hang");
    const before = raw.received().length;
    raw.say(`${call(50, "wait_for_job", { job_id })}\n`);
    // It is under way when a later call has been answered.
    await raw.ask("tools/list");
    expect(raw.received()).toHaveLength(before + 1);
    const ended = performance.now();
    raw.child.stdin.end();
    expect(await raw.exited).toEqual([0, null]);
    // The wait alone would take 45 s.
    expect(performance.now() - ended).toBeLessThan(30_000);
    const told = raw.received().find(({ id }) => id === 50)?.result as Told;
    expect(told.structuredContent.job).toMatchObject({
      id: job_id,
      status: expect.stringMatching(/queued|running/),
    });
    expect(raw.output.stderr).not.toContain('"level":"error"');
  },
);

test.concurrent.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
  "%s ends one that passes on to another client's process without a complaint, and leaves that one alone",
  async (signal) => {
    const home = await temporaryDirectory();
    const first = startRaw(home);
    await first.ask("initialize", initialize);
    const second = startRaw(home);
    await second.ask("initialize", initialize);
    const before = second.output.stderr;
    second.child.kill(signal);
    expect(await second.exited).toEqual([0, null]);
    expect(second.output.stderr).toBe(before);
    expect((await first.ask("tools/list")).result).toBeDefined();
    first.child.stdin.end();
    expect(await first.exited).toEqual([0, null]);
  },
);
