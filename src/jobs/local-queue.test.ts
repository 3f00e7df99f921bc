import { expect, test, vi } from "vitest";
import { anywhere, handWork, queueSuite } from "../../test/ports/queue-suite.ts";
import { until } from "../../test/until.ts";
import { createLocalQueue } from "./local-queue.ts";

queueSuite("local", {
  open: async ({ concurrency }) => {
    const thrown: string[] = [];
    return { queue: createLocalQueue({ concurrency, onError: (_error, id) => thrown.push(id) }), thrown };
  },
});

test("an id that is bound to whatever instance is handed out: there is only this one", async () => {
  const queue = createLocalQueue({ concurrency: 1, onError: (error) => expect.fail(String(error)) });
  const { work, running, end } = handWork();
  queue.start(work);
  await queue.add({ id: "a", boundTo: "another" });
  await until(() => running.has("a"));
  end("a");
});

test("when another job ends an id that has to wait is tried before those that came later", async () => {
  const queue = createLocalQueue({ concurrency: 2, onError: (error) => expect.fail(String(error)) });
  const { work, running, handed, end } = handWork();
  queue.start(work);
  await queue.add(...["a", "b", "c", "d"].map(anywhere));
  end("b", "later");
  await until(() => running.has("c"));
  end("a");
  await until(() => running.size === 2);
  expect(handed).toEqual(["a", "b", "c", "b"]);
});

test("ids that have to wait are handed out once a second each, however many they are and however long they wait", async () => {
  vi.useFakeTimers();
  try {
    const queue = createLocalQueue({ concurrency: 2, onError: (error) => expect.fail(String(error)) });
    let handed = 0;
    queue.start(async () => {
      handed += 1;
      return "later";
    });
    await queue.add(...["a", "b", "c"].map(anywhere));
    await vi.advanceTimersByTimeAsync(10_500);
    expect(handed).toBe(3 * 11);
    queue.stop();
  } finally {
    vi.useRealTimers();
  }
});
