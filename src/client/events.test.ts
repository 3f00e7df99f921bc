import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { lastingPort } from "../../test/lasting-port.ts";
import { until } from "../../test/until.ts";
import type { JobEvent } from "../contract/event.ts";
import { listen } from "../http/server.ts";
import { createTestApp } from "../http/app.fixture.ts";
import { ClientError } from "./client-error.ts";
import { createClient, type Follow } from "./client.ts";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(closers.splice(0).map((close) => close()));
});

const started = async () => {
  const service = createTestApp();
  const port = await lastingPort();
  // A process that another test is just starting may hold a copy of an old socket for a moment.
  const listening = () => until(() => listen(service.app, { host: "127.0.0.1", port }));
  let server = await listening();
  closers.push(() => server.close(0));
  const { url } = server;
  const client = createClient({ baseUrl: url });
  const { job } = await client.run_task({ task: "x" });
  const restart = async (): Promise<void> => {
    server = await listening();
  };
  return { ...service, client, id: job.id, url, cut: () => server.close(0), restart };
};

/** A stand-in of the service that says what the test wants. */
const serving = async (listener: RequestListener): Promise<string> => {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(async () => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const collect = (client: ReturnType<typeof createClient>, id: string, follow: Follow = {}) => {
  const seen: JobEvent[] = [];
  const stream = client.events(id, follow);
  const done = (async () => {
    for (;;) {
      const next = await stream.next();
      if (next.done === true) return next.value;
      seen.push(next.value);
    }
  })();
  done.catch(() => {});
  return { seen, done };
};

describe("following a job", () => {
  test("gives every event once and returns the final job", async () => {
    const { client, id, events, end } = await started();
    events.append(id, "a");
    const { seen, done } = collect(client, id);
    await until(() => seen.length === 1);
    events.append(id, "b");
    end(id);
    expect((await done).status).toBe("succeeded");
    expect(seen.map(({ seq }) => seq)).toEqual([1, 2]);
  });

  test("starts after the number it is given", async () => {
    const { client, id, events, end } = await started();
    for (const text of ["a", "b", "c"]) events.append(id, text);
    end(id);
    const { seen, done } = collect(client, id, { after: 2 });
    await done;
    expect(seen.map(({ seq }) => seq)).toEqual([3]);
  });

  test("survives a restart of the service: nothing twice, nothing missing", async () => {
    const { client, id, events, end, cut, restart } = await started();
    events.append(id, "a");
    const { seen, done } = collect(client, id);
    await until(() => seen.length === 1);
    await cut();
    events.append(id, "b");
    events.append(id, "c");
    await restart();
    await until(() => seen.length === 3);
    await cut();
    end(id);
    await restart();
    expect((await done).status).toBe("succeeded");
    expect(seen.map(({ seq }) => seq)).toEqual([1, 2, 3]);
  });

  test("gives up with a sentence when the service stays unreachable", async () => {
    const { client, id, events, cut, url } = await started();
    events.append(id, "a");
    const { seen, done } = collect(client, id, { patienceMs: 300 });
    await until(() => seen.length === 1);
    await cut();
    await expect(done).rejects.toThrow(`No service answers at ${url}`);
  });

  test("a job that does not exist and a service that is not there are reported at once", async () => {
    const { client, cut } = await started();
    await expect(collect(client, "nothing").done).rejects.toMatchObject({
      status: 404,
      code: "job_not_found",
    });
    await cut();
    // The first request may still meet the connection of before, which breaks.
    await until(async () => {
      const error: unknown = await collect(client, "nothing").done.catch((thrown: unknown) => thrown);
      return error instanceof ClientError && error.code === "unreachable";
    });
  });

  test("a job that is gone when the service is back is reported at once", async () => {
    const { client, id, events, jobs, cut, restart } = await started();
    events.append(id, "a");
    const { seen, done } = collect(client, id);
    await until(() => seen.length === 1);
    await cut();
    jobs.delete(id);
    await restart();
    await expect(done).rejects.toMatchObject({ status: 404, code: "job_not_found" });
  });

  test("says where it was when it comes back, and leaves out what it has been given before", async () => {
    const positions: unknown[] = [];
    const event = (seq: number): string => `id: ${seq}\nevent: text\ndata: {"seq":${seq}}\n\n`;
    const url = await serving((request, response) => {
      positions.push(request.headers["last-event-id"]);
      response.writeHead(200, { "content-type": "text/event-stream" });
      if (positions.length === 1) response.write(event(1) + event(2), () => response.destroy());
      else response.end(`${event(2)}${event(3)}event: end\ndata: {"job":{}}\n\n`);
    });
    const { seen, done } = collect(createClient({ baseUrl: url }), "x");
    await done;
    expect(seen.map(({ seq }) => seq)).toEqual([1, 2, 3]);
    expect(positions).toEqual([undefined, "2"]);
  });

  test("stops on request, and the service notices", async () => {
    const { client, id, events } = await started();
    events.append(id, "a");
    const stop = new AbortController();
    const { seen, done } = collect(client, id, { signal: stop.signal });
    await until(() => seen.length === 1);
    stop.abort(new Error("enough"));
    await expect(done).rejects.toThrow("enough");
    await until(() => events.counters.reading === 0);
    await expect(collect(client, id, { signal: stop.signal }).done).rejects.toThrow("enough");
  });

  test("a consumer that breaks off leaves no connection open", async () => {
    const { client, id, events } = await started();
    events.append(id, "a");
    for await (const event of client.events(id)) {
      expect(event.seq).toBe(1);
      break;
    }
    await until(() => events.counters.reading === 0);
  });

  test("events that are cut anywhere, in the middle of a character too, are put together again", async () => {
    const bytes = Buffer.from(
      'id: 1\nevent: text\ndata: {"seq":1,"text":"größer ✓"}\n\nevent: end\ndata: {"job":{"id":"é"}}\n\n',
    );
    const url = await serving((_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const send = (at: number): void => {
        if (at >= bytes.length) return void response.end();
        response.write(bytes.subarray(at, at + 1), () => setImmediate(send, at + 1));
      };
      send(0);
    });
    const { seen, done } = collect(createClient({ baseUrl: url }), "x");
    expect(await done).toEqual({ id: "é" });
    expect(seen).toEqual([{ seq: 1, text: "größer ✓" }]);
  });
});
