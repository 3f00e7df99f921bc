import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import { lockOf, type Locks } from "../store/locks.ts";

type Dependencies = {
  store: Pick<JobStore, "unsettled" | "get" | "usesOfWorktree" | "queuedInSession" | "runningInSession">;
  locks: Locks;
  settings: { lostInstanceGrace: number };
  now: () => Date;
};

/** What only one job at a time may use: its worktree, and its agent session. */
export const namesOf = ({ id, worktree_id, session_id }: JobRecord): string[] => [
  lockOf.worktree(worktree_id ?? id),
  ...(session_id === null ? [] : [lockOf.session(session_id)]),
];

/**
 * Claims a job while nobody else uses what it needs. The locks are held during the claim only: after it, the record
 * shows that the job has not been cleaned up, which outlasts an outage in which a lock would lapse.
 */
export const claimIfFree = async <Value>(
  deps: Dependencies,
  record: JobRecord,
  claim: () => Promise<Value>,
): Promise<Value | "later"> => {
  // Nobody else can know the worktree of a job that never ran.
  const isNew = record.worktree_id === null && record.attempt === 0;
  const names = isNew ? namesOf(record).slice(1) : namesOf(record);
  return whileLocked(deps.locks, names, async () => ((await isFree(deps, record)) ? await claim() : "later"));
};

const whileLocked = async <Value>(
  locks: Locks,
  [name, ...others]: string[],
  work: () => Promise<Value>,
): Promise<Value | "later"> => {
  if (name === undefined) return await work();
  await using lock = await locks.take(name);
  return lock === null ? "later" : await whileLocked(locks, others, work);
};

const isFree = async (deps: Dependencies, record: JobRecord): Promise<boolean> => {
  const { id, worktree_id, session_id } = record;
  const uses = worktree_id === null ? [] : await deps.store.usesOfWorktree(worktree_id);
  const isInUse = uses.some(
    ({ jobId, unsettled, ended }) => unsettled && jobId !== id && mayBeActive(deps, ended),
  );
  if (isInUse) return false;
  const inWorktree = uses.flatMap(({ jobId, status }) => (status === "queued" ? [jobId] : []));
  const inSession = session_id === null ? [] : await deps.store.queuedInSession(session_id);
  return (
    (await isItsTurn(deps, record, inWorktree)) &&
    (await isItsTurn(deps, record, inSession)) &&
    !(await isSessionInUse(deps, record))
  );
};

/** Jobs of a worktree or session run in the order they came; none waits for an unreadable one. `queued`: oldest first. */
const isItsTurn = async ({ store }: Dependencies, { id, status }: JobRecord, queued: readonly string[]) => {
  // One that was parked has had it.
  if (status === "running") return true;
  for (const other of queued) {
    if (other === id) return true;
    if ((await store.get(other)) !== null) return false;
  }
  return true;
};

const isSessionInUse = async (deps: Dependencies, { id, session_id }: JobRecord): Promise<boolean> => {
  if (session_id === null) return false;
  if ((await deps.store.runningInSession(session_id)).some((other) => other !== id)) return true;
  const others = (await deps.store.unsettled()).filter((run) => run.id !== id);
  const records = await Promise.all(others.map((run) => deps.store.get(run.id)));
  return records.some(
    (record) =>
      record?.unsettled === true &&
      record.session_id === session_id &&
      mayBeActive(deps, record.ended_at === null ? null : Date.parse(record.ended_at)),
  );
};

/** Whether a run that was not cleaned up may still be active, even if another instance ended its job. */
const mayBeActive = ({ now, settings }: Dependencies, ended: number | null): boolean =>
  ended === null || now().getTime() - ended < settings.lostInstanceGrace * 1000;
