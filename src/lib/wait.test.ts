import { expect, test } from "vitest";
import { pause, retry } from "./wait.ts";

const never = new AbortController().signal;

/** Fails that many times, then returns the number of attempts. */
const failing = (times: number) => {
  let tries = 0;
  return async (): Promise<number> => {
    tries += 1;
    if (tries <= times) throw new Error(`${tries}`);
    return tries;
  };
};

test("it retries until it succeeds, and reports each failure", async () => {
  const told: unknown[] = [];
  const onFailure = (error: unknown): void => void told.push(error);
  const tried = await retry(failing(3), { first: 1, longest: 2, signal: never, onFailure });
  expect(tried).toBe(4);
  expect(told.map(String)).toEqual(["Error: 1", "Error: 2", "Error: 3"]);
});

test("an abort ends the pause, and one last attempt follows", async () => {
  const leaving = new AbortController();
  const options = { first: 1e6, longest: 1e6, signal: leaving.signal, onFailure: () => leaving.abort() };
  await expect(retry(failing(5), options)).rejects.toThrow("2");
  expect(await retry(failing(0), options)).toBe(1);
});

test("a pause ends with its time or its signal, without an error", async () => {
  await pause(1, never);
  await pause(1e6, AbortSignal.abort());
});
