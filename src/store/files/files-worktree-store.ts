import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { syncDirectory, temporarySuffix, writeFileAtomic } from "../../lib/atomic-file.ts";
import type { Log } from "../../lib/log.ts";
import { createTurns } from "../../lib/turns.ts";
import { withoutWaiting } from "../../lib/without-waiting.ts";
import { byAge, parseWorktree } from "../stored-worktree.ts";
import type { WorktreeRecord, WorktreeStore } from "../worktree-store.ts";
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

/** A torn or foreign file is skipped with a warning and left where it is; what a crashed write left is deleted. */
const loadRecords = async (directory: string, log: Log): Promise<Map<string, WorktreeRecord>> => {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const records = new Map<string, WorktreeRecord>();
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if (name.endsWith(temporarySuffix)) await rm(path, { force: true });
    if (!name.endsWith(".json")) continue;
    const text = await readFile(path, { encoding: "utf8", flag: withoutWaiting.read }).catch(() => "");
    const record = parseWorktree(text, name.slice(0, -".json".length));
    if (record === null)
      log.warn({ file: path }, "worktree file skipped: it holds no record of this version");
    else records.set(record.worktree_id, record);
  }
  return records;
};
