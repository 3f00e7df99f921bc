import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { createLocalLocks } from "../store/locks.ts";
import { createConversationTurns } from "./conversation-turns.ts";

const patient = 60;
const nobody = new AbortController().signal;

test("who waits in vain learns it in time, and leaves the queue", async () => {
  const turns = createConversationTurns(createLocalLocks());
  const first = await turns.hold("c", patient, nobody);
  await expect(turns.hold("c", 0.02, nobody)).rejects.toMatchObject({ code: "conversation_busy" });
  const next = turns.hold("c", patient, nobody);
  await first.release();
  await expect(next).resolves.toBeDefined();
});

test("who leaves while waiting gets its own reason, and holds nobody up", async () => {
  const turns = createConversationTurns(createLocalLocks());
  const first = await turns.hold("c", patient, nobody);
  const leaving = new AbortController();
  const second = turns.hold("c", patient, leaving.signal);
  leaving.abort(new ServiceError("draining", "The service ends"));
  await expect(second).rejects.toMatchObject({ code: "draining" });
  const third = turns.hold("c", patient, nobody);
  await first.release();
  await expect(third).resolves.toBeDefined();
});

/** Locks of a store that can be away, and whose locks then lapse. */
const failingLocks = () => {
  const local = createLocalLocks();
  const lapsing = new AbortController();
  const state = { away: false, answers: 0 };
  return {
    state,
    lapse: async (): Promise<void> => {
      await taken?.release();
      lapsing.abort();
    },
    locks: {
      take: async (name: string) => {
        if (state.away) throw new ServiceError("store_unavailable", "The store is away");
        const lock = await local.take(name);
        state.answers += 1;
        taken ??= lock;
        return lock === null ? null : { ...lock, lost: lapsing.signal.aborted ? nobody : lapsing.signal };
      },
    },
  };
};
let taken: Awaited<ReturnType<ReturnType<typeof createLocalLocks>["take"]>> = null;

test("a lock that lapses while the store is unreachable is taken again when it is back", async () => {
  taken = null;
  const { locks, state, lapse } = failingLocks();
  const held = await createConversationTurns(locks).hold("c", patient, nobody);
  state.away = true;
  await lapse();
  expect(held.lost.aborted).toBe(false);
  state.away = false;
  const other = createConversationTurns(locks);
  await until(() => state.answers === 2);
  await expect(other.hold("c", 0.02, nobody)).rejects.toMatchObject({ code: "conversation_busy" });
  await held.release();
  await expect(other.hold("c", patient, nobody)).resolves.toBeDefined();
});

test("it is lost when somebody else has it by then", async () => {
  taken = null;
  const { locks, state, lapse } = failingLocks();
  const held = await createConversationTurns(locks).hold("c", patient, nobody);
  state.away = true;
  await lapse();
  state.away = false;
  await locks.take("conv:c");
  await until(() => held.lost.aborted);
});
