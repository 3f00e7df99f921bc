import { expect, test } from "vitest";
import { whileCollecting } from "./while-collecting.ts";

const context = { principal: "ana", requestId: "1", signal: new AbortController().signal };
const sessions = (total: () => number) => async () => ({
  body: { success: true, total: total() },
  code: null,
});
const progress = () => ({ collected_bytes: 3, total_bytes: 9 });

test("the first answer waits for the first reading of the files", async () => {
  let total = 0;
  const first = Promise.withResolvers<void>();
  const ask = whileCollecting(
    sessions(() => total),
    { first: first.promise, progress },
  );
  const asked = ask("list_sessions", {}, context);
  total = 11;
  first.resolve();
  expect((await asked).body).toEqual({ success: true, total: 11 });
});

test("after the wait answers say that files are still read, and how far, until that has ended", async () => {
  const first = Promise.withResolvers<void>();
  const ask = whileCollecting(
    sessions(() => 0),
    { first: first.promise, progress, waitMs: 20 },
  );
  for (let count = 0; count < 2; count += 1) {
    const { body } = await ask("list_sessions", {}, context);
    expect(body).toEqual({ success: true, collecting: true, collected_bytes: 3, total_bytes: 9, total: 0 });
    expect(Object.keys(body).slice(0, 4)).toEqual([
      "success",
      "collecting",
      "collected_bytes",
      "total_bytes",
    ]);
  }
  first.resolve();
  await first.promise;
  expect((await ask("list_sessions", {}, context)).body).toEqual({ success: true, total: 0 });
});

test("so they do while much is read later", async () => {
  const read = { collected_bytes: 1, total_bytes: 2_000_000 };
  const ask = whileCollecting(
    sessions(() => 1),
    { first: Promise.resolve(), progress: () => read },
  );
  expect((await ask("list_sessions", {}, context)).body).toEqual({
    success: true,
    collecting: true,
    ...read,
    total: 1,
  });
  read.collected_bytes = read.total_bytes;
  expect((await ask("list_sessions", {}, context)).body).toEqual({ success: true, total: 1 });
});
