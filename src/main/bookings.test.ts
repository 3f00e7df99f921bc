import { onTestFinished, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import { createBookings } from "./bookings.ts";

const record = (id: string, pod_name: string | null) =>
  ({ id, pod_name, status: "failed", usage: null, created_at: "2026-03-02T09:00:00.000Z" }) as JobRecord;

/** Bookings of the instance `a`, whose store has these jobs unbooked. */
const bookingsOf = (left: JobRecord[], refuses: string[] = []) => {
  const world = { added: [] as string[], booked: [] as string[], errors: [] as string[] };
  const bookings = createBookings({
    store: {
      // As the store: a part at a time.
      due: async (_what, _until, skip) =>
        left
          .slice(skip)
          .slice(0, 2)
          .map(({ id }) => id),
      get: async (id) => left.find((each) => each.id === id) ?? null,
      update: (async (id: string) => (world.booked.push(id), null)) as JobStore["update"],
    },
    telemetry: {
      addRun: async ({ id }) => {
        if (refuses.includes(id)) throw Object.assign(new Error("too long"), { permanent: true });
        world.added.push(id);
      },
    },
    settings: { agentOauthToken: null },
    isOurs: ({ pod_name }) => pod_name !== "b",
    dropped: () => undefined,
    now: () => new Date(),
    log: {
      warn: () => undefined,
      error: (_: unknown, said: string) => void world.errors.push(said),
    } as unknown as Parameters<typeof createBookings>[0]["log"],
  });
  onTestFinished(bookings.close);
  return { ...world, bookings };
};

test("what an earlier start left unbooked is booked at once, and what belongs to another instance is left to it", async () => {
  const { added, booked } = bookingsOf([record("1", "a"), record("2", "b"), record("3", null)]);
  await until(() => booked.length === 2);
  expect([added, booked]).toEqual([
    ["1", "3"],
    ["1", "3"],
  ]);
});

test("many jobs that are left to another instance do not hide those of this one", async () => {
  const others = ["1", "2", "3", "4", "5"].map((id) => record(id, "b"));
  const { added } = bookingsOf([...others, record("6", "a")]);
  await until(() => added.length === 1);
  expect(added).toEqual(["6"]);
});

test("what the database refuses is not tried for ever, and keeps nothing else", async () => {
  const { added, booked, errors } = bookingsOf([record("1", "a"), record("2", "a")], ["1"]);
  await until(() => booked.length === 2);
  expect([added, errors.length]).toEqual([["2"], 1]);
});
