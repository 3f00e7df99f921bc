import { expect, test } from "vitest";
import { createNotifier } from "./notifier.ts";

const never = new AbortController().signal;

test("a ring wakes everybody who waits for that name, and nobody else", async () => {
  const notifier = createNotifier();
  const woken: string[] = [];
  const waits = ["a", "a", "b"].map((name) => notifier.waitFor(name, never).then(() => woken.push(name)));
  notifier.notify("a");
  await Promise.all(waits.slice(0, 2));
  expect(woken).toEqual(["a", "a"]);
  notifier.notify("b");
  await Promise.all(waits);
  expect(woken).toEqual(["a", "a", "b"]);
});

test("a waiter whose signal aborts goes on, before or while it waits", async () => {
  const notifier = createNotifier();
  const controller = new AbortController();
  const waiting = notifier.waitFor("a", controller.signal);
  controller.abort();
  await waiting;
  await notifier.waitFor("a", controller.signal);
});
