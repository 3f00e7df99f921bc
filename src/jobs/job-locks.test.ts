import { expect, test } from "vitest";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { createLocalLocks } from "../store/locks.ts";
import { claimIfFree } from "./job-locks.ts";

test("a job waits for the earlier ones of its session, but for none whose record cannot be read", async () => {
  const session_id = "5a4d7a7e-0b44-4a3c-8a1e-6a5f6d8c2f11";
  const [unreadable, earlier, later] = [
    sampleRecord(),
    sampleRecord({ session_id }),
    sampleRecord({ session_id }),
  ];
  const waiting = [unreadable.id, earlier.id, later.id];
  const deps = {
    store: {
      unsettled: async () => [],
      get: async (id: string) => [earlier, later].find((record) => record.id === id) ?? null,
      usesOfWorktree: async () => [],
      queuedInSession: async () => waiting,
    },
    locks: createLocalLocks(),
    settings: { lostInstanceGrace: 300 },
    now: () => new Date(),
  };
  const claim = async (): Promise<"claimed"> => "claimed";
  expect(await claimIfFree(deps, later, claim)).toBe("later");
  expect(await claimIfFree(deps, earlier, claim)).toBe("claimed");
});
