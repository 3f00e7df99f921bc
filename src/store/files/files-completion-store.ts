import { join } from "node:path";
import type { CompletionStatus } from "../../contract/completion.ts";
import type { Log } from "../../lib/log.ts";
import { createTurns } from "../../lib/turns.ts";
import {
  isCompletionId,
  isUnfinished,
  parseCompletion,
  type CompletionRecord,
  type CompletionStore,
} from "../completion-store.ts";
import { filesOf } from "./one-file.ts";
import { readDirectory } from "./read-directory.ts";

type Options = { directory: string; ttlSeconds: number; now: () => Date; log: Log };

type Entry = { uuid: string; created: number; ended: number | null; status: CompletionStatus };

/** One JSON file per completion, replaced atomically; an index in memory, and those that are not final whole. */
export const openFilesCompletionStore = async ({
  directory,
  ttlSeconds,
  now,
  log,
}: Options): Promise<CompletionStore> => {
  const { inTurn } = createTurns();
  const files = filesOf(directory);
  const entries = new Map<string, Entry>();
  const live = new Map<string, CompletionRecord>();
  const file = (uuid: string): string => join(directory, `${nameOf(uuid)}.json`);

  const skip = (path: string): void =>
    log.warn({ file: path }, "completion file skipped: it holds no record of this version");

  const remember = (record: CompletionRecord): void => {
    entries.set(record.uuid, entryOf(record));
    if (isUnfinished(record)) live.set(record.uuid, record);
    else live.delete(record.uuid);
  };

  for await (const { path, name, text } of readDirectory(directory)) {
    const record = parseCompletion(text, uuidOf(name));
    if (record === null || !isCompletionId(record.uuid)) skip(path);
    else remember(record);
  }

  const write = async (record: CompletionRecord): Promise<void> => {
    await files.write(file(record.uuid), record);
    remember(record);
  };

  const hasLapsed = ({ ended }: Entry, at: number): boolean =>
    ended !== null && ended + ttlSeconds * 1000 <= at;

  const read = async (uuid: string): Promise<CompletionRecord | null> => {
    const known = live.get(uuid);
    if (known !== undefined) return known;
    const entry = entries.get(uuid);
    if (entry === undefined || hasLapsed(entry, now().getTime())) return null;
    const text = await files.read(file(uuid));
    const record = text === null ? null : parseCompletion(text, uuid);
    if (record !== null) return record;
    // One file that somebody spoilt must not spoil the lists that it is in.
    if (entries.get(uuid) === entry) entries.delete(uuid);
    if (text !== null) skip(file(uuid));
    return null;
  };

  return {
    create: (record) =>
      inTurn(record.uuid, async () => {
        if (!isCompletionId(record.uuid))
          throw new Error("the id of a completion is letters, digits and -_.:");
        if (live.has(record.uuid)) return false;
        await write(record);
        return true;
      }),
    update: (uuid, epoch, changes) =>
      inTurn(uuid, async () => {
        const record = live.get(uuid);
        if (record === undefined || record.epoch !== epoch) return false;
        await write({ ...record, ...changes, uuid });
        return true;
      }),
    get: (uuid) => inTurn(uuid, () => read(uuid)),
    list: async ({ limit, status }) => {
      const fitting = [...entries.values()]
        .filter((entry) => status === "all" || entry.status === status)
        .toSorted(byAge);
      const records: CompletionRecord[] = [];
      for (const { uuid } of fitting) {
        if (records.length === limit) break;
        const record = await inTurn(uuid, () => read(uuid));
        if (record !== null && (status === "all" || record.status === status)) records.push(record);
      }
      return records;
    },
    unfinished: async () => [...live.values()],
    tidy: async (at) => {
      for (const [uuid, entry] of entries) {
        if (!hasLapsed(entry, at.getTime())) continue;
        await inTurn(uuid, async () => {
          if (entries.get(uuid) !== entry) return;
          await files.remove(file(uuid));
          entries.delete(uuid);
        });
      }
    },
  };
};

const entryOf = ({ uuid, status, created_at, ended_at }: CompletionRecord): Entry => ({
  uuid,
  status,
  created: Date.parse(created_at),
  ended: ended_at === null ? null : Date.parse(ended_at),
});

const byAge = (a: Entry, b: Entry): number => b.created - a.created || (a.uuid < b.uuid ? 1 : -1);

/**
 * A colon is no character for a file name, and a dot in front hides a file or means a directory. Ids have neither `+` nor
 * `=`, so no two of them share a name; nothing gets longer, since names of files are bounded.
 */
const nameOf = (uuid: string): string => uuid.replaceAll(":", "+").replace(/^\./, "=");
const uuidOf = (name: string): string => name.replaceAll("+", ":").replace(/^=/, ".");
