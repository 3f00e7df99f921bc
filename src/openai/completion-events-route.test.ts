import { getEventListeners } from "node:events";
import { afterAll, expect, test } from "vitest";
import { busEvent } from "../../test/ports/event-bus-suite.ts";
import { until } from "../../test/until.ts";
import type { Completion } from "../contract/completion.ts";
import { ServiceError } from "../contract/errors.ts";
import { createTestApp } from "../http/app.fixture.ts";
import { listen } from "../http/server.ts";
import { createLog } from "../lib/log.ts";
import { toCompletion } from "../store/completion-store.ts";
import { openLocalEventBus } from "../../test/open-stores.ts";
import { sampleCompletion } from "../../test/ports/completion-store-suite.ts";
import { completionEventsRoute } from "./completion-events-route.ts";

const bus = openLocalEventBus({ now: () => new Date("2026-01-01T00:00:00Z") });
const completions = new Map<string, Completion>();
const closing = new AbortController();
let reading = 0;

const events = {
  read: async function* (...args: Parameters<typeof bus.read>) {
    reading += 1;
    try {
      yield* bus.read(...args);
    } finally {
      reading -= 1;
    }
  },
};

const route = completionEventsRoute({
  events,
  getCompletion: async ({ uuid }) => {
    const completion = completions.get(uuid);
    if (completion === undefined) throw new ServiceError("completion_not_found", `There is no ${uuid}`);
    return { completion };
  },
  closing: closing.signal,
  log: createLog("silent", (line) => line),
  pingEveryMs: 20,
});
const service = createTestApp({ routes: [route] });
const server = await listen(service.app, { host: "127.0.0.1", port: 0 });
afterAll(() => server.close(0));

const begun = async (over: Partial<Completion> = {}): Promise<string> => {
  const uuid = `turn:${crypto.randomUUID()}`;
  completions.set(uuid, { ...toCompletion(sampleCompletion({ uuid, status: "running" })), ...over });
  return uuid;
};

/** A reader that takes what comes; `text` is what has come so far, without pings. */
const follow = async (uuid: string, { query = "", headers = {} as Record<string, string> } = {}) => {
  const stop = new AbortController();
  const response = await fetch(`${server.url}/completions/${encodeURIComponent(uuid)}/events${query}`, {
    headers,
    signal: stop.signal,
  });
  const state = { raw: "" };
  const done = (async () => {
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) state.raw += text;
  })().catch(() => undefined);
  const pieces = (): string[] =>
    state.raw.split("\n\n").filter((piece) => piece !== "" && piece !== ": ping");
  return { response, state, pieces, done, stop: () => stop.abort() };
};

const idOf = (piece: string | undefined): string => /^id: (.*)$/m.exec(piece ?? "")?.[1] ?? "";

test("events come as they happen, with their ids and names, and end with done", async () => {
  const uuid = await begun();
  const { response, pieces, done } = await follow(uuid);
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const first = busEvent(uuid, "thinking", "two\nlines");
  bus.publish(first);
  await until(() => pieces().length === 1);
  bus.publish(busEvent(uuid, "done", "completed"));
  await done;
  expect(pieces()[0]).toMatch(/^id: \d+-\d+\nevent: thinking\ndata: \{/);
  expect(JSON.parse(pieces()[0]?.split("data: ")[1] ?? "")).toEqual(first);
  expect(pieces().slice(1)).toEqual([expect.stringMatching(/^id: \d+-\d+\nevent: done\ndata: \{/)]);
});

test("they are resumed after the last one received: the header wins over the address", async () => {
  const uuid = await begun();
  for (const content of ["a", "b", "c"]) bus.publish(busEvent(uuid, "tool_use", content));
  bus.publish(busEvent(uuid, "done"));
  const whole = await follow(uuid);
  await whole.done;
  expect(whole.pieces()).toHaveLength(4);
  const [first, second, third] = whole.pieces().map(idOf);
  const seen = async (options: Parameters<typeof follow>[1]) => {
    const { pieces, done } = await follow(uuid, options);
    await done;
    return pieces();
  };
  expect(await seen({ query: `?after=${first}` })).toEqual(whole.pieces().slice(1));
  expect(await seen({ query: `?after=${first}`, headers: { "last-event-id": second ?? "" } })).toEqual(
    whole.pieces().slice(2),
  );
  expect(await seen({ headers: { "last-event-id": third ?? "" } })).toEqual(whole.pieces().slice(3));
});

test("those of an earlier turn with the same id are not shown", async () => {
  const uuid = await begun({ created_at: "2026-01-01T00:00:01.000Z" });
  for (const ts of ["2026-01-01T00:00:00.999Z", "2026-01-01T00:00:01.000Z"])
    for (const type of ["tool_use", "done"] as const) bus.publish(busEvent(uuid, type, ts, { ts }));
  const { pieces, done } = await follow(uuid);
  await done;
  expect(pieces().map((piece) => piece.includes('"content":"2026-01-01T00:00:01.000Z"'))).toEqual([
    true,
    true,
  ]);
});

test.each(["1", "x", "-1-1", "1-", "1-2-3", "9".repeat(20)])("%s is no position", async (text) => {
  const uuid = await begun();
  for (const options of [{ query: `?after=${text}` }, { headers: { "last-event-id": text } }]) {
    const { response } = await follow(uuid, options);
    expect(response.status).toBe(400);
  }
});

test("unknown parameters and unknown completions are refused", async () => {
  const answer = await service.app.request(`/completions/${await begun()}/events?aftr=1`);
  expect(await answer.json()).toMatchObject({ error: "aftr: is not known, did you mean after?" });
  const missing = await service.app.request("/completions/unknown/events");
  expect([missing.status, await missing.json()]).toEqual([
    404,
    { success: false, error: "There is no unknown", code: "completion_not_found" },
  ]);
});

test("of a completion whose events are gone, done is all there is", async () => {
  const uuid = "long-ago";
  const ended = { status: "failed", ended_at: "2025-01-01T00:00:00.000Z", session_id: "s" } as const;
  completions.set(uuid, toCompletion(sampleCompletion({ uuid, ...ended })));
  const { pieces, done } = await follow(uuid);
  await done;
  const [only, ...others] = pieces();
  expect(others).toEqual([]);
  expect(only).toMatch(/^event: done\n/);
  expect(JSON.parse(only?.split("data: ")[1] ?? "")).toEqual({
    event_type: "done",
    content: "failed",
    ts: ended.ended_at,
    session_id: "s",
    correlation_id: uuid,
  });
});

test("a silent stream says that it is alive, and a reader who leaves leaves nothing behind", async () => {
  const { state, done, stop } = await follow(await begun());
  await until(() => state.raw.startsWith(": ping\n\n: ping\n\n"));
  expect(reading).toBe(1);
  stop();
  await done;
  await until(() => reading === 0 && getEventListeners(closing.signal, "abort").length === 0);
});

test("HEAD starts no reading", async () => {
  const answer = await service.app.request(`/completions/${await begun()}/events`, { method: "HEAD" });
  expect([answer.status, getEventListeners(closing.signal, "abort").length]).toEqual([200, 0]);
});

test("a service that shuts down ends its streams without done", async () => {
  const uuid = await begun();
  const { pieces, done } = await follow(uuid);
  bus.publish(busEvent(uuid, "tool_use", "x"));
  await until(() => pieces().length === 1);
  closing.abort();
  await done;
  expect(pieces()).toHaveLength(1);
});
