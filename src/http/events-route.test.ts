import { getEventListeners, once } from "node:events";
import { connect } from "node:net";
import { afterAll, describe, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { listen } from "./server.ts";
import { createTestApp, exampleJobs } from "./app.fixture.ts";

const service = createTestApp({ pingEveryMs: 40 });
const { events, jobs, closing } = service;
const server = await listen(service.app, { host: "127.0.0.1", port: 0 });
afterAll(() => server.close(0));

const created = (): string => {
  const id = crypto.randomUUID();
  jobs.set(id, { ...exampleJobs.queued, id, status: "running" });
  return id;
};

/** A reader; `text` is everything received so far. */
const follow = async (
  id: string,
  { query = "", headers = {} }: { query?: string; headers?: Record<string, string> } = {},
) => {
  const stop = new AbortController();
  const response = await fetch(`${server.url}/jobs/${id}/events${query}`, { headers, signal: stop.signal });
  const state = { text: "", ended: false };
  const reading = (async () => {
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) state.text += text;
    state.ended = true;
  })().catch(() => (state.ended = true));
  return { response, state, reading, stop: () => stop.abort() };
};

const withoutPings = (text: string): string => text.replaceAll(": ping\n\n", "");
const ids = (text: string): number[] => [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));

describe("a job's events", () => {
  test("are sent as they happen, and end with the final job", async () => {
    const id = created();
    events.append(id, "one");
    const { response, state, reading } = await follow(id);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    await until(() => ids(state.text).length === 1);
    events.append(id, "two\nlines");
    await until(() => ids(state.text).length === 2);
    service.end(id);
    await reading;
    const [first, second, last] = withoutPings(state.text).trim().split("\n\n");
    expect(first).toMatch(/^id: 1\nevent: text\ndata: \{"seq":1,.*"text":"one"\}$/);
    expect(second).toMatch(/^id: 2\nevent: text\ndata: \{.*"text":"two\\nlines"\}$/);
    expect(last).toMatch(/^event: end\ndata: \{"job":\{/);
    expect(JSON.parse(last?.split("data: ")[1] ?? "")).toEqual({ job: jobs.get(id) });
  });

  test("are resumed after the last one seen: the header wins over the address", async () => {
    const id = created();
    for (const text of ["a", "b", "c", "d"]) events.append(id, text);
    service.end(id);
    const seen = async (options: Parameters<typeof follow>[1]) => {
      const { state, reading } = await follow(id, options);
      await reading;
      return ids(state.text);
    };
    expect(await seen({})).toEqual([1, 2, 3, 4]);
    expect(await seen({ query: "?after=2" })).toEqual([3, 4]);
    expect(await seen({ query: "?after=1", headers: { "last-event-id": "3" } })).toEqual([4]);
    expect(await seen({ query: "?after=4" })).toEqual([]);
  });

  test.each(["-1", "1.5", "x", "01", "1e3", "99999999999999999999"])(
    "%s is no position",
    async (position) => {
      const id = created();
      for (const [query, headers] of [
        [`?after=${position}`, {}],
        ["", { "last-event-id": position }],
      ] as const) {
        const answer = await service.app.request(`/jobs/${id}/events${query}`, { headers });
        expect(answer.status).toBe(400);
        expect(await answer.json()).toMatchObject({
          code: "invalid_request",
          error: expect.stringContaining("must be the number of an event"),
        });
      }
    },
  );

  test("are asked for by known parameters only", async () => {
    const answer = await service.app.request(`/jobs/${created()}/events?aftr=1`);
    expect(await answer.json()).toMatchObject({ error: "aftr: is not known, did you mean after?" });
  });

  test("a silent stream sends pings", async () => {
    const { state, stop, reading } = await follow(created());
    await until(() => state.text === ": ping\n\n: ping\n\n: ping\n\n");
    stop();
    await reading;
  });
});

describe("readers that leave", () => {
  const idle = () => events.counters.reading === 0 && getEventListeners(closing.signal, "abort").length === 0;

  test("leave nothing behind, with and without new events", async () => {
    const id = created();
    const readers = await Promise.all(Array.from({ length: 20 }, () => follow(id)));
    events.append(id, "x");
    await until(() => readers.every(({ state }) => ids(state.text).length === 1));
    expect(events.counters.reading).toBe(20);
    expect(getEventListeners(closing.signal, "abort")).toHaveLength(20);
    for (const reader of readers) reader.stop();
    await until(idle);
    await Promise.all(readers.map(({ reading }) => reading));
  });

  test("leave nothing behind when they disconnect before the first byte", async () => {
    const id = created();
    for (let round = 0; round < 20; round += 1) {
      const socket = connect(server.port, "127.0.0.1");
      await once(socket, "connect");
      socket.write(`GET /jobs/${id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      socket.destroy();
    }
    await fetch(`${server.url}/health`);
    await until(idle);
  });

  test("a reader that does not read delays no other reader, and nothing is read ahead for it", async () => {
    const id = created();
    const socket = connect(server.port, "127.0.0.1");
    socket.pause();
    socket.write(`GET /jobs/${id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await until(() => events.counters.reading === 1);
    events.counters.delivered = 0;
    const big = "x".repeat(100_000);
    for (let count = 0; count < 300; count += 1) events.append(id, big);
    service.end(id);
    const { state, reading } = await follow(id);
    await reading;
    expect(ids(state.text)).toHaveLength(300);
    // 30 MB were written; the stalled reader has been given what fits into the buffers of its connection.
    expect(events.counters.delivered - 300).toBeLessThan(200);
    socket.destroy();
    await until(idle);
  });
});

test("a stream whose event log fails ends without `end`, and the reason is logged", async () => {
  const broken = createTestApp({
    events: {
      async *read() {
        yield { seq: 1, at: "", attempt: 1, type: "warning", message: "last" } as const;
        throw new Error("the disk failed");
      },
    },
  });
  broken.jobs.set("x", { ...exampleJobs.succeeded, id: "x" });
  const { url, close } = await listen(broken.app, { host: "127.0.0.1", port: 0 });
  const text = await (await fetch(`${url}/jobs/x/events`)).text();
  await close(0);
  expect(text).toMatch(/^id: 1\nevent: warning\n/);
  expect(text).not.toContain("event: end");
  expect(broken.lines.find(({ level }) => level === "error")).toMatchObject({
    message: "event stream failed",
    job_id: "x",
  });
});

test("a log that ends before its job does ends the stream without `end`", async () => {
  const id = created();
  events.append(id, "x");
  events.finish(id);
  const { state, reading } = await follow(id);
  await reading;
  expect(withoutPings(state.text)).not.toContain("event: end");
});

test("a service that shuts down ends its streams politely, without `end`", async () => {
  const id = created();
  events.append(id, "x");
  const { state, reading } = await follow(id);
  await until(() => ids(state.text).length === 1);
  closing.abort();
  await reading;
  expect(state.ended).toBe(true);
  expect(state.text).not.toContain("event: end");
  // What a late reader has not been given is not said to have ended.
  service.end(id);
  const late = await follow(id);
  await late.reading;
  expect(late.state.text).toBe("");
  expect(events.counters.reading).toBe(0);
});
