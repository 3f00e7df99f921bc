import { expect, test } from "vitest";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { createLog } from "../lib/log.ts";
import type { JobRecord } from "../store/job-record.ts";
import { createOwnership } from "./ownership.ts";

const mine = sampleRecord({ status: "running", attempt: 2, instance_epoch: "now", unsettled: true });

/** What a look at a run makes of the record that the store gives. */
const looked = (get: () => Promise<JobRecord | null>, { retryLost = false, lapsed = false } = {}) => {
  const interrupted: string[] = [];
  const { checkAll: look } = createOwnership({
    store: { get },
    worker: {
      runs: () => [{ id: mine.id, attempt: 2, retryLost, isResumed: false }],
      interrupt: (_id, reason) => void interrupted.push(reason ?? "cancel"),
    },
    epoch: "now",
    leaseMayHaveLapsed: () => lapsed,
    log: createLog("silent", (text) => text),
  });
  return { look, interrupted };
};

test.each<[string, Partial<JobRecord> | null, string[]]>([
  ["is this run's", {}, []],
  ["is about to be claimed", { status: "queued", attempt: 1, instance_epoch: null }, []],
  ["was cancelled", { status: "cancelled" }, ["cancel"]],
  ["was called lost by another instance", { status: "failed" }, ["fence"]],
  ["was queued again", { status: "queued", instance_epoch: null }, ["fence"]],
  ["is another attempt", { attempt: 3 }, ["fence"]],
  ["is another start's", { instance_epoch: "later" }, ["fence"]],
  ["has been settled by this run", { status: "succeeded", unsettled: false }, []],
  ["is gone", null, ["fence"]],
])("a job that %s", async (_what, over, expected) => {
  const { look, interrupted } = looked(async () => (over === null ? null : { ...mine, ...over }));
  expect(await look()).toBe(true);
  expect(interrupted).toEqual(expected);
});

test("an answer that comes too late for the look counts all the same", async () => {
  const answer = Promise.withResolvers<JobRecord>();
  const { look, interrupted } = looked(() => answer.promise);
  expect(await look()).toBe(false);
  answer.resolve({ ...mine, status: "cancelled" });
  await until(() => interrupted.length > 0);
  expect(interrupted).toEqual(["cancel"]);
});

test.each([
  [true, true, ["fence"]],
  [true, false, []],
  [false, true, []],
])(
  "with the store away, a run that may be run twice (%s) after the lease (%s)",
  async (retryLost, lapsed, expected) => {
    const { look, interrupted } = looked(
      () => Promise.reject(new ServiceError("store_unavailable", "It is away")),
      { retryLost, lapsed },
    );
    expect(await look()).toBe(false);
    expect(interrupted).toEqual(expected);
  },
);
