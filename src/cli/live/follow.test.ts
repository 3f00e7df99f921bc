import { describe, expect, test } from "vitest";
import { sampleJob, sampleLog } from "../../../test/cli/sample-job.ts";
import { json, stream, stubService } from "../../../test/cli/stub-service.ts";
import { until } from "../../../test/until.ts";
import { createClient } from "../../client/client.ts";
import type { JobEvent } from "../../contract/event.ts";
import type { Job } from "../../contract/job.ts";
import { followJob } from "./follow.ts";

const queued = sampleJob();
const log = sampleLog(
  { type: "stage", stage: "queued", detail: null },
  { type: "stage", stage: "claimed", detail: null },
  { type: "stage", stage: "ended", detail: null },
);

const start = async () => {
  const state: { events: JobEvent[]; final: Job | null } = { events: log.slice(0, 2), final: null };
  const stub = await stubService({
    [`GET /jobs/${queued.id}/events`]: stream(
      () => state.events,
      () => state.final,
    ),
    [`GET /jobs/${queued.id}`]: json(200, { success: true, job: queued }),
  });
  const seen: number[] = [];
  const notes: string[] = [];
  const controller = new AbortController();
  const follow = (patienceMs: number) =>
    followJob({
      client: createClient({ baseUrl: `http://127.0.0.1:${stub.port}` }),
      jobId: queued.id,
      signal: controller.signal,
      onEvent: ({ seq }) => seen.push(seq),
      onNote: (text) => notes.push(text),
      patienceMs,
    });
  return { state, stub, seen, notes, controller, follow };
};

describe("following a job", () => {
  test("continues after an outage with the event after the last one, and tells of both ends of it", async () => {
    const { state, stub, seen, notes, follow } = await start();
    const ended = follow(60_000);
    await until(() => seen.length === 2);
    await stub.stop();
    await until(() => notes.length === 1);
    state.events = log;
    state.final = sampleJob({ status: "succeeded" });
    await stub.start();
    await expect(ended).resolves.toMatchObject({ status: "succeeded" });
    expect(seen).toEqual([1, 2, 3]);
    expect(notes).toEqual([
      expect.stringMatching(/^The service is unreachable/),
      "The service answers again",
    ]);
  });

  test("gives up after the patience, with the id", async () => {
    const { stub, seen, follow } = await start();
    const ended = follow(300).catch((error: unknown) => error);
    await until(() => seen.length === 2);
    await stub.stop();
    expect(String(await ended)).toMatch(new RegExp(`unreachable for 300 ms .*svc job ${queued.id}`));
  });

  test("does not try again what the service refuses", async () => {
    const stub = await stubService({
      [`GET /jobs/${queued.id}/events`]: json(404, {
        success: false,
        error: "No such job",
        code: "job_not_found",
      }),
    });
    const client = createClient({ baseUrl: `http://127.0.0.1:${stub.port}` });
    const signal = new AbortController().signal;
    const onEvent = () => undefined;
    await expect(followJob({ client, jobId: queued.id, signal, onEvent, onNote: onEvent })).rejects.toThrow(
      "No such job",
    );
    expect(stub.requests).toHaveLength(1);
  });

  test("ends at once when it is aborted, also during an outage", async () => {
    const { stub, seen, notes, controller, follow } = await start();
    const ended = follow(60_000).catch((error: unknown) => error);
    await until(() => seen.length === 2);
    await stub.stop();
    await until(() => notes.length === 1);
    controller.abort();
    expect(await ended).toMatchObject({ name: "AbortError" });
  });
});
