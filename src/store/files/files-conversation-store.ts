import { join } from "node:path";
import type { Log } from "../../lib/log.ts";
import { createTurns } from "../../lib/turns.ts";
import {
  isConversationKey,
  lapseOf,
  parseConversation,
  type ConversationRecord,
  type ConversationStore,
} from "../conversation-store.ts";
import { filesOf } from "./one-file.ts";
import { readDirectory } from "./read-directory.ts";

type Options = { directory: string; ttlSeconds: number; now: () => Date; log: Log };

/** How many lapsed conversations are told at once. */
const mostLapsed = 500;

/** One JSON file per conversation, replaced atomically; only when each lapses is kept in memory. */
export const openFilesConversationStore = async ({
  directory,
  ttlSeconds,
  now,
  log,
}: Options): Promise<ConversationStore> => {
  const { inTurn } = createTurns();
  const files = filesOf(directory);
  const lapses = new Map<string, number>();
  const warned = new Set<string>();
  const file = (key: string): string => join(directory, `${key}.json`);

  const skip = (path: string): void => {
    if (warned.has(path)) return;
    warned.add(path);
    log.warn({ file: path }, "conversation file skipped: it holds no record of this version");
  };

  for await (const { path, name, text } of readDirectory(directory)) {
    const record = isConversationKey(name) ? parseConversation(text) : null;
    if (record === null) skip(path);
    else lapses.set(name, lapseOf(record, ttlSeconds));
  }

  const read = async (key: string): Promise<ConversationRecord | null> => {
    const text = await files.read(file(key));
    if (text === null) return null;
    const record = parseConversation(text);
    if (record === null) skip(file(key));
    return record;
  };

  const drop = async (key: string): Promise<void> => {
    await files.remove(file(key));
    lapses.delete(key);
  };

  /** Null: it has been written again meanwhile, or is gone. */
  const collect = async (key: string, at: number): Promise<ConversationRecord | null> => {
    if ((lapses.get(key) ?? Infinity) > at) return null;
    const record = await read(key);
    await drop(key);
    return record;
  };

  return {
    get: async (key) => {
      if ((lapses.get(key) ?? -Infinity) <= now().getTime()) return null;
      return await inTurn(key, () => read(key));
    },
    put: (key, record) =>
      inTurn(key, async () => {
        if (!isConversationKey(key)) throw new Error("the key of a conversation is 64 hex digits");
        await files.write(file(key), record);
        lapses.set(key, lapseOf(record, ttlSeconds));
      }),
    remove: (key) =>
      inTurn(key, async () => {
        if (lapses.has(key)) await drop(key);
      }),
    lapsed: async (at) => {
      const due = [...lapses].filter(([, lapse]) => lapse <= at.getTime()).slice(0, mostLapsed);
      const records: ConversationRecord[] = [];
      for (const [key] of due) {
        const record = await inTurn(key, () => collect(key, at.getTime()));
        if (record !== null) records.push(record);
      }
      return records;
    },
  };
};
