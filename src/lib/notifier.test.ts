import { expect, test } from "vitest";
import { createNotifier } from "./notifier.ts";

const never = new AbortController().signal;

test("a notification wakes all waiters for its name, and no others", async () => {
  const bell = createNotifier();
  const woken: string[] = [];
  const waits = ["a", "a", "b"].map((name) => bell.waitFor(name, never).then(() => woken.push(name)));
  bell.notify("a");
  await Promise.all(waits.slice(0, 2));
  expect(woken).toEqual(["a", "a"]);
  bell.notify("b");
  await Promise.all(waits);
  expect(woken).toEqual(["a", "a", "b"]);
});

test("a waiter continues when its signal aborts, before or during the wait", async () => {
  const bell = createNotifier();
  const controller = new AbortController();
  const waiting = bell.waitFor("a", controller.signal);
  controller.abort();
  await waiting;
  await bell.waitFor("a", controller.signal);
});
