import { once } from "node:events";
import { Agent, request } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { createTestApp } from "./app.fixture.ts";
import { listen } from "./server.ts";
import { createWrongKeys } from "./wrong-keys.ts";

/** A service with a key, and how long it takes to answer one that is sent; null: the connection is closed. */
const start = async () => {
  const server = await listen(createTestApp({ apiKeys: ["the-right-key-of-16"] }).app, {
    host: "127.0.0.1",
    port: 0,
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 200 });
  onTestFinished(() => (agent.destroy(), server.close(0)));
  const ask = (
    headers: Record<string, string>,
    { path = "/jobs", localAddress = "127.0.0.1" } = {},
  ): Promise<{ status: number | undefined; ms: number } | null> =>
    new Promise((resolve) => {
      const began = performance.now();
      const asked = request(`${server.url}${path}`, { agent, headers, localAddress }, (answer) => {
        answer.resume();
        answer.on("end", () => resolve({ status: answer.statusCode, ms: performance.now() - began }));
      });
      asked.on("error", () => resolve(null)).end();
    });
  const guess = (nth = 0, more = {}) => ask({ "x-api-key": `guess-${nth}` }, more);
  return { ask, guess };
};

test("after 20 wrong keys the next ones of that address are answered one a second, in turn; nobody else waits", async () => {
  const { ask, guess } = await start();
  const quick = await Promise.all(Array.from({ length: 20 }, (_, nth) => guess(nth)));
  expect(quick.map((answer) => answer?.status)).toEqual(Array(20).fill(401));
  const slow = Promise.all([guess(21), guess(22, { path: "/ready" }), guess(23)]);
  const others = await Promise.all([
    ask({ "x-api-key": "the-right-key-of-16" }),
    ask({ authorization: "Bearer the-right-key-of-16", "x-api-key": "wrong" }),
    ask({}),
    ask({}, { path: "/health" }),
    guess(0, { localAddress: "127.0.0.2" }),
  ]);
  expect(others.map((answer) => answer?.status)).toEqual([200, 200, 401, 200, 401]);
  const times = (await slow).map((answer) => answer?.ms ?? 0).toSorted((one, other) => one - other);
  for (const answer of others) expect(answer?.ms).toBeLessThan(times[0] ?? 0);
  for (const [nth, ms] of times.entries()) expect(ms).toBeGreaterThan((nth + 1) * 990);
}, 30_000);

test("at most 64 wait: the oldest is closed; who hangs up takes nobody's turn", async () => {
  const closed: number[] = [];
  const answered: number[] = [];
  const wrongKey = createWrongKeys();
  const ask = (nth: number, signal: AbortSignal): void =>
    void wrongKey("192.0.2.1", { close: () => closed.push(nth), signal }).then(() => answered.push(nth));
  const [here, gone] = [new AbortController(), AbortSignal.abort()];
  for (let nth = 0; nth < 20 + 64; nth += 1) ask(nth, nth === 20 || nth === 23 ? gone : here.signal);
  expect(closed).toEqual([]);
  ask(84, here.signal);
  ask(85, here.signal);
  expect(closed).toEqual([20, 21]);
  answered.length = 0;
  await new Promise((resolve) => setTimeout(resolve, 1500));
  expect(answered.filter((nth) => !closed.includes(nth) && nth >= 20)).toEqual([22]);
  await new Promise((resolve) => setTimeout(resolve, 1000));
  expect(answered.filter((nth) => !closed.includes(nth) && nth >= 20)).toEqual([22, 23, 24]);
});

test.each([
  ["2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true],
  ["2001:db8::1", "2001:db8:0:0:9::", true],
  ["::1", "::2", true],
  ["::ffff:192.0.2.1", "192.0.2.1", true],
  ["2001:db8:1:2::1", "2001:db8:1:3::1", false],
  ["::ffff:192.0.2.1", "::ffff:192.0.2.2", false],
  ["192.0.2.1", "192.0.2.2", false],
])("%s and %s count as one: %s", async (one, other, isSame) => {
  let time = 0;
  const wrongKey = createWrongKeys(() => time);
  const { signal } = new AbortController();
  const isAtOnce = async (address: string): Promise<boolean> => {
    const late = once(AbortSignal.timeout(50), "abort").then(() => false);
    return await Promise.race([wrongKey(address, { close: () => undefined, signal }).then(() => true), late]);
  };
  for (let nth = 0; nth < 20; nth += 1) expect(await isAtOnce(one)).toBe(true);
  expect(await isAtOnce(other)).toBe(!isSame);
  time += 60_001;
  expect(await isAtOnce(one)).toBe(true);
});
