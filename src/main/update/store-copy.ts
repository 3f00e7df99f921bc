import { copyFile, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Settings } from "../../config/variables.ts";
import { connectKv } from "../../kv/connect.ts";
import { createLog } from "../../lib/log.ts";
import { completionKind } from "../../store/completion-store.ts";
import { conversationKind } from "../../store/conversation-store.ts";
import { formatFile, inKv } from "../../store/format.ts";
import { openFilesRecords } from "../../store/files-records.ts";
import { createJobStore, jobKind } from "../../store/job-store.ts";
import type { Kind } from "../../store/records.ts";
import { openRedisRecords } from "../../store/redis-records.ts";
import { createWorktreeStore, worktreeKind } from "../../store/worktree-store.ts";

const log = createLog("silent", String);

/** The directories of records, below that of the jobs. */
const kinds = ["", "worktrees", "conversations", "completions"];

/**
 * Copies the records into a directory, laid out as SERVICE_JOBS_DIR is, and only reads the store: no lock, no events, no
 * submitted files. From a key-value store come jobs and worktrees; a copy within it would need its memory twice.
 */
export const copyStore = async (settings: Settings, directory: string): Promise<void> => {
  for (const kind of kinds) await mkdir(join(directory, kind), { recursive: true, mode: 0o700 });
  if (settings.kvUrl !== null) return await exportRecords(settings, settings.kvUrl, directory);
  await copyFile(formatFile(settings.jobsDir), formatFile(directory)).catch(noneIfMissing);
  for (const kind of kinds) {
    const entries = await readdir(join(settings.jobsDir, kind), { withFileTypes: true }).catch(noneIfMissing);
    for (const entry of entries) {
      if (!entry.isFile() || !entry.name.endsWith(".json")) continue;
      // A running service may have removed it.
      await copyFile(join(settings.jobsDir, kind, entry.name), join(directory, kind, entry.name)).catch(
        noneIfMissing,
      );
    }
  }
};

const exportRecords = async (
  { kvKeyPrefix: prefix, podName }: Settings,
  url: string,
  directory: string,
): Promise<void> => {
  const kv = await connectKv({ url, prefix, log });
  try {
    const number = await inKv(kv).read();
    if (number !== null) await writeFile(formatFile(directory), number);
    const options = { kv, now: kv.now, log };
    const jobs = createJobStore(openRedisRecords(jobKind(podName), options), podName);
    const write = (path: string, record: object): Promise<void> =>
      writeFile(join(directory, `${path}.json`), JSON.stringify(record), { mode: 0o600 });
    for (let cursor: string | null = ""; cursor !== null;) {
      const page = await jobs.list({ limit: 500, status: "", cursor });
      for (const record of page.records) await write(record.id, record);
      cursor = page.next;
    }
    for (const record of await createWorktreeStore(openRedisRecords(worktreeKind, options)).list())
      await write(join("worktrees", record.worktree_id), record);
  } finally {
    await kv.close();
  }
};

/** How many records there are of each kind, and jobs of each status: what a version can read of a copy. */
export const Tally = z.record(z.string(), z.number());
export type Tally = z.infer<typeof Tally>;

export const readCopy = async (directory: string): Promise<Tally> => {
  const open = <T extends object>(kind: Kind<T>, name: string) =>
    openFilesRecords(kind, { directory: join(directory, name), now: () => new Date(), log });
  const jobs = await createJobStore(await open(jobKind(null), ""), null).counts();
  const count = async <T extends object>(kind: Kind<T>, name: string): Promise<number> =>
    (await (await open(kind, name)).all()).length;
  return {
    ...jobs,
    worktrees: await count(worktreeKind, "worktrees"),
    conversations: await count(conversationKind(1), "conversations"),
    completions: await count(completionKind(1), "completions"),
  };
};

const noneIfMissing = (error: NodeJS.ErrnoException): [] => {
  if (error.code === "ENOENT") return [];
  throw error;
};
