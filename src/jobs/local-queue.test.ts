import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { createLocalQueue } from "./local-queue.ts";

test("a job that has to wait is looked at again although no other job ends", async () => {
  const queue = createLocalQueue({ concurrency: 1, onError: (error) => expect.fail(String(error)) });
  const handed: string[] = [];
  queue.start(async (id) => {
    handed.push(id);
    return handed.length === 1 ? "later" : "done";
  });
  queue.add("a");
  await until(() => handed.length === 2);
  expect(handed).toEqual(["a", "a"]);
});
