import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { rpc, startDoors, toolCall } from "./mcp.fixture.ts";

type Doors = Awaited<ReturnType<typeof startDoors>>;

/** A session on /sse with all that the server has sent. */
const opened = async ({ url }: Doors) => {
  const leaving = new AbortController();
  const answer = await fetch(`${url}/sse`, { signal: leaving.signal });
  const received = { text: "" };
  const reading = (async () => {
    for await (const chunk of answer.body ?? []) received.text += Buffer.from(chunk).toString();
  })();
  reading.catch(() => undefined);
  const endpoint = await until(() => /^data: (\/messages.*)$/m.exec(received.text)?.[1]);
  return {
    /** In batches as large as may be. */
    post: async (...messages: object[]) => {
      for (let at = 0; at < messages.length; at += 20) await rpc(url + endpoint, messages.slice(at, at + 20));
    },
    leave: () => leaving.abort(),
    /** Bodies of the answers so far. */
    answers: () =>
      [...received.text.matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => {
        const { result } = JSON.parse(data) as { result: { isError?: boolean; structuredContent: object } };
        return { isError: result.isError ?? false, ...result.structuredContent };
      }),
  };
};

const waits = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({
    ...toolCall("wait_for_job", { job_id: "x" }),
    id: from + index,
  }));

const full = (what: string) => ({
  isError: true,
  success: false,
  error: `${what}, which is the limit; ask again when some have ended`,
  code: "queue_full",
});

test("a cancelled call frees its permit", async () => {
  const doors = await startDoors({ maxCalls: 3 });
  const session = await opened(doors);
  await session.post(...waits(0, 3));
  await until(() => doors.waiting.now === 3);
  await session.post(...waits(3, 20));
  await until(() => session.answers().length === 20);
  for (const answer of session.answers()) expect(answer).toEqual(full("3 calls are running"));
  await session.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } });
  await until(() => doors.waiting.now === 2);
  await session.post({ ...toolCall("list_jobs", {}), id: "a free permit" });
  await until(() => session.answers().length === 21);
  expect(session.answers().at(-1)).toMatchObject({ success: true });
  session.leave();
  await until(() => doors.waiting.now === 0);
});

test("calls of many sessions and of /mcp count together, and those of a session that has left no longer", async () => {
  const doors = await startDoors({ maxCalls: 5 });
  const [one, other] = [await opened(doors), await opened(doors)];
  await one.post(...waits(0, 3));
  await other.post(...waits(0, 1));
  const leaving = new AbortController();
  const ask = (body: unknown, signal?: AbortSignal) =>
    fetch(`${doors.url}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
      body: JSON.stringify(body),
      ...(signal !== undefined && { signal }),
    });
  ask(waits(0, 1)[0], leaving.signal).catch(() => undefined);
  await until(() => doors.waiting.now === 5);
  const refusals = await Promise.all(waits(1, 50).map(async (body) => (await ask(body)).json()));
  for (const refusal of refusals) {
    expect(refusal).toMatchObject({
      result: { isError: true, structuredContent: { success: false, code: "queue_full" } },
    });
  }
  await other.post(...waits(1, 1));
  await until(() => other.answers().length === 1);
  expect(other.answers()).toEqual([full("5 calls are running")]);
  one.leave();
  leaving.abort();
  await until(() => doors.waiting.now === 1);
  expect(await (await ask(toolCall("list_jobs", {}))).json()).toMatchObject({
    result: { structuredContent: { success: true } },
  });
  other.leave();
});

test("a batch larger than may be is refused on /mcp, one that is as large is answered whole", async () => {
  const { url } = await startDoors();
  const batch = (count: number) =>
    Array.from({ length: count }, (_, id) => ({ ...toolCall("list_jobs", {}), id }));
  const refused = await rpc(url, batch(21), { "mcp-protocol-version": "2025-03-26" });
  expect([refused.status, await refused.json()]).toMatchObject([
    400,
    { error: { code: -32600, message: expect.stringContaining("an array of 1 to 20") } },
  ]);
  const answered = await rpc(url, batch(20), { "mcp-protocol-version": "2025-03-26" });
  const text = await answered.text();
  expect(text.match(/"id":\d+/g)).toHaveLength(20);
  expect(text).not.toContain("queue_full");
});

test("the answers to a batch are not longer than one answer may be: the others say to ask for less", async () => {
  const { url, jobs } = await startDoors();
  await rpc(url, toolCall("run_task", { task: "x" }));
  const [job] = jobs.values();
  for (let at = 0; at < 17; at += 1) jobs.set(`job-${at}`, { ...job!, task: "x".repeat(1_000_000) });
  const batch = Array.from({ length: 3 }, (_, id) => ({ ...toolCall("list_jobs", {}), id }));
  const answered = await rpc(url, batch, { "mcp-protocol-version": "2025-03-26" });
  const [first, ...others] = [...(await answered.text()).matchAll(/^data: (\{.*)$/gm)].map(
    ([, data = ""]) => data,
  );
  expect(first?.slice(0, 300)).toContain('\\"count\\":18');
  expect(others).toHaveLength(2);
  for (const other of others) {
    expect(JSON.parse(other)).toMatchObject({
      result: {
        isError: true,
        structuredContent: { error: expect.stringMatching(/32,000,000 characters; ask for less/) },
      },
    });
  }
});
