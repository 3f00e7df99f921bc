import { expect, test } from "vitest";
import { ended } from "../../test/ports/job-record-sample.ts";
import { createLog } from "../lib/log.ts";
import { createRetries, LastingFailure } from "../lib/retries.ts";
import type { JobRecord } from "../store/job-record.ts";
import { createLocalLocks } from "../store/locks.ts";
import { applyRetention, type Retention } from "./retention.ts";

const never = new AbortController().signal;
const log = createLog("silent", (text) => text);

/** Jobs whose time is over, oldest first, and what a round does with them. */
const world = (
  due: { worktrees?: JobRecord[]; removable?: JobRecord[]; later?: JobRecord[] },
  over: Partial<Retention> = {},
) => {
  const records = new Map(Object.values(due).flatMap((all) => all.map((record) => [record.id, record])));
  const listed: Record<string, string[]> = { expired: [], worktrees: [], removable: [] };
  for (const [what, all] of Object.entries(due)) listed[what] = all.map(({ id }) => id);
  const gone = (what: string, id: string): void => {
    listed[what] = (listed[what] ?? []).filter((each) => each !== id);
  };
  const scene = { now: 0, tries: 0, removed: [] as string[] };
  const deps = {
    store: {
      due: async (what: string, _until: number, skip = 0) => listed[what]?.slice(skip, skip + 500) ?? [],
      get: async (id: string) => {
        const record = records.get(id);
        return record?.pod_name === "nobody" ? null : record;
      },
      // A job's own worktree has its id.
      usesOfWorktree: async (worktree: string) =>
        [{ ...ended(), id: worktree }, ...(due.later ?? [])].map(({ id, status }) => ({
          jobId: id,
          status,
          unsettled: false,
        })),
      update: async (id: string) => gone("worktrees", id),
      remove: async (id: string) => {
        gone("removable", id);
        scene.removed.push(id);
      },
    },
    events: { remove: async () => undefined },
    removeConfig: async () => undefined,
    lockWorktree: createLocalLocks().take,
    locationOf: () => "here",
    worktreeTtl: 0,
    retries: createRetries(),
    now: () => new Date(scene.now),
    log,
    ...over,
  } as unknown as Retention;
  return { scene, round: () => applyRetention(deps, never), left: () => listed };
};

const some = (count: number, over: Partial<JobRecord> = {}): JobRecord[] =>
  Array.from({ length: count }, () => {
    const record = ended({ worktree_path: "/w", ...over });
    return { ...record, worktree_id: record.id };
  });

test("worktrees that stay hold up no other, and are tried once a day in the end", async () => {
  const [kept, others] = [some(500), some(2)];
  const stay = new Set(kept.map(({ id }) => id));
  let tries = 0;
  const { scene, round, left } = world(
    { worktrees: [...kept, ...others] },
    {
      removeWorktree: async ({ id }) => {
        if (!stay.has(id)) return;
        tries += 1;
        throw new LastingFailure("kept");
      },
    },
  );
  await round();
  await round();
  expect(left()["worktrees"]).toEqual([...stay]);
  const days = async (count: number): Promise<void> => {
    for (let hour = 0; hour < count * 24; hour += 1, scene.now += 3_600_000) await round();
  };
  await days(5);
  tries = 0;
  await days(5);
  expect(tries).toBe(5 * 500);
});

test("records that are another instance's, or that nobody can read, hold up no other", async () => {
  const none = { worktree_path: null };
  const [others, own] = [some(500, { ...none, pod_name: "b" }), some(1, none)];
  const unreadable = some(500, { ...none, pod_name: "nobody" });
  const { scene, round } = world(
    { removable: [...others, ...unreadable, ...own] },
    {
      locationOf: ({ pod_name }) => (pod_name === "b" ? "other" : "here"),
    },
  );
  for (let count = 0; count < 3; count += 1) await round();
  expect(scene.removed).toContain(own[0]?.id);
});

test("a worktree goes with the last job that was in it, also when one after that failed before its checkout", async () => {
  for (const [later, removed] of [
    [{ status: "failed", worktree_path: null }, 1],
    [{ status: "failed" }, 0],
    [{ status: "queued", worktree_path: null }, 0],
  ] as const) {
    const gone: string[] = [];
    const worktrees = some(1);
    const { round } = world(
      { worktrees, later: some(1, later) },
      {
        removeWorktree: async ({ id }) => void gone.push(id),
      },
    );
    await round();
    expect(gone).toEqual(worktrees.slice(0, removed).map(({ id }) => id));
  }
});
