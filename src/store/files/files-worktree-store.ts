import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { syncDirectory, temporarySuffix, writeFileAtomic } from "../../lib/atomic-file.ts";
import type { Log } from "../../lib/log.ts";
import { createTurns } from "../../lib/turns.ts";
import { withoutWaiting } from "../../lib/without-waiting.ts";
import { worktreeRecordFormat, type WorktreeRecord, type WorktreeStore } from "../worktree-store.ts";
import { storeUnavailable } from "./store-unavailable.ts";

/** One JSON file per prepared worktree, replaced atomically; all are kept in memory. */
export const openFilesWorktreeStore = async (directory: string, log: Log): Promise<WorktreeStore> => {
  const { inTurn, settled } = createTurns();
  const file = (id: string): string => join(directory, `${id}.json`);
  const records = await loadRecords(directory, log);

  const write = async (record: WorktreeRecord): Promise<void> => {
    try {
      await writeFileAtomic(file(record.worktree_id), JSON.stringify(record));
    } catch (cause) {
      throw storeUnavailable(directory, cause);
    }
    records.set(record.worktree_id, record);
  };

  return {
    create: (record) => inTurn(record.worktree_id, () => write(record)),
    get: async (id) => records.get(id) ?? null,
    list: async () => [...records.values()].toSorted(byAge),
    update: (id, statuses, patch) =>
      inTurn(id, async () => {
        const record = records.get(id);
        if (record === undefined || !statuses.includes(record.status)) return null;
        const next = { ...record, ...patch };
        await write(next);
        return next;
      }),
    remove: (id) =>
      inTurn(id, async () => {
        if (!records.has(id)) return;
        try {
          await rm(file(id), { force: true });
          await syncDirectory(directory);
        } catch (cause) {
          throw storeUnavailable(directory, cause);
        }
        records.delete(id);
      }),
    close: settled,
  };
};

const byAge = (a: WorktreeRecord, b: WorktreeRecord): number =>
  Date.parse(a.created_at) - Date.parse(b.created_at) || (a.worktree_id < b.worktree_id ? -1 : 1);

const Stored: z.ZodType<WorktreeRecord> = z.object({
  format: z.literal(worktreeRecordFormat),
  worktree_id: z.uuid(),
  repo_url: z.string(),
  repo_key: z.string(),
  base_ref: z.string(),
  branch: z.string(),
  path: z.string(),
  status: z.enum(["preparing", "ready", "failed", "removed"]),
  pod_name: z.string(),
  attempt: z.int(),
  created_at: z.iso.datetime(),
  used_at: z.iso.datetime().nullable(),
  ended_at: z.iso.datetime().nullable(),
  removing: z.boolean(),
  salvage_ref: z.string().nullable(),
  error: z.string().nullable(),
});

/** A torn or foreign file is skipped with a warning and left where it is; what a crashed write left is deleted. */
const loadRecords = async (directory: string, log: Log): Promise<Map<string, WorktreeRecord>> => {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const records = new Map<string, WorktreeRecord>();
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if (name.endsWith(temporarySuffix)) await rm(path, { force: true });
    if (!name.endsWith(".json")) continue;
    const record = await readRecord(path).catch(() => null);
    if (record === null || `${record.worktree_id}.json` !== name)
      log.warn({ file: path }, "worktree file skipped: it holds no record of this version");
    else records.set(record.worktree_id, record);
  }
  return records;
};

const readRecord = async (path: string): Promise<WorktreeRecord> =>
  Stored.parse(JSON.parse(await readFile(path, { encoding: "utf8", flag: withoutWaiting.read })));
