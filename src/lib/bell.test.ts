import { expect, test } from "vitest";
import { createBell } from "./bell.ts";

const never = new AbortController().signal;

test("a ring wakes everybody who waits for that name, and nobody else", async () => {
  const bell = createBell();
  const woken: string[] = [];
  const waits = ["a", "a", "b"].map((name) => bell.next(name, never).then(() => woken.push(name)));
  bell.ring("a");
  await Promise.all(waits.slice(0, 2));
  expect(woken).toEqual(["a", "a"]);
  bell.ring("b");
  await Promise.all(waits);
  expect(woken).toEqual(["a", "a", "b"]);
});

test("a waiter whose signal aborts goes on, before or while it waits", async () => {
  const bell = createBell();
  const controller = new AbortController();
  const waiting = bell.next("a", controller.signal);
  controller.abort();
  await waiting;
  await bell.next("a", controller.signal);
});
