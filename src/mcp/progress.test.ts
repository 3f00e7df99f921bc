import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { createProgress } from "./server.ts";

const recorded = (gapMs: number) => {
  const sent: { progress: number; message: string }[] = [];
  return { sent, progress: createProgress(async (note) => void sent.push(note), gapMs) };
};

test("the first message is sent at once, of those that follow quickly only the newest, with rising numbers", async () => {
  const { sent, progress } = recorded(20);
  for (const message of ["one", "two", "three"]) progress.report(message);
  expect(sent).toEqual([{ progress: 1, message: "one" }]);
  await until(() => sent.length === 2);
  expect(sent[1]).toEqual({ progress: 2, message: "three" });
  progress.stop();
});

test("nothing follows a stop, and a disconnected receiver does no harm", async () => {
  const { sent, progress } = recorded(5);
  progress.report("one");
  progress.report("two");
  progress.stop();
  const disconnected = createProgress(() => Promise.reject(new Error("closed")), 1);
  disconnected.report("one");
  const other = recorded(20);
  other.progress.report("one");
  other.progress.report("two");
  await until(() => other.sent.length === 2);
  expect(sent).toHaveLength(1);
  other.progress.stop();
  disconnected.stop();
});
