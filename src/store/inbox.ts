import { setTimeout as delay } from "node:timers/promises";
import type { Kv, KvClient } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { Message } from "./instances.ts";

/** How long one read waits for messages, and how much longer it may take before its connection counts as dead, ms. */
const block = 5000;
const patience = 5000;

/** Wait before the store is tried again, ms. */
const pause = 500;

/** An inbox that nobody reads is forgotten after this time, s. */
const expireSeconds = 3600;

/** The stream of messages of the instance `name`, and those of others to write to. */
export const createInbox = ({ kv, name, log }: { kv: Kv; name: string; log: Log }) => {
  const keyOf = (to: string): string => kv.key("pod", to, "inbox");
  /** Id of the last message seen; null: not begun. */
  let seen: string | null = null;

  const start = async (): Promise<string> => {
    const [last] = await kv.ask((client) => client.xrevrange(keyOf(name), "+", "-", "COUNT", 1));
    return (seen ??= last?.[0] ?? "0-0");
  };

  const read = async (client: KvClient, after: string): Promise<[string, string[]][]> => {
    const reply = await client.xread("COUNT", 100, "BLOCK", block, "STREAMS", keyOf(name), after);
    return reply?.[0]?.[1] ?? [];
  };

  return {
    /** What is told from here on is received. */
    start,

    send: async (to: string, message: Message): Promise<void> => {
      const text = JSON.stringify(message);
      await kv.ask((client) =>
        Promise.all([
          client.xadd(keyOf(to), "MAXLEN", "~", 1000, "*", "m", text),
          client.expire(keyOf(to), expireSeconds),
        ]),
      );
    },

    receive: async function* (signal: AbortSignal): AsyncGenerator<Message> {
      let client: KvClient | null = null;
      const hangUp = (): void => {
        client?.disconnect();
        client = null;
      };
      signal.addEventListener("abort", hangUp);
      try {
        while (!signal.aborted) {
          let entries: [string, string[]][];
          try {
            const after = seen ?? (await start());
            if (signal.aborted) return;
            entries = await inTime(read((client ??= kv.dedicated()), after));
          } catch (err) {
            hangUp();
            if (!signal.aborted) log.debug({ err }, "messages of other instances cannot be read at present");
            await delay(pause, undefined, { signal }).catch(() => undefined);
            continue;
          }
          for (const [id, fields] of entries) {
            seen = id;
            const message = parse(fields[1] ?? "");
            if (message === null) log.warn({ id }, "a message of another instance is not understood");
            else yield message;
            if (signal.aborted) return;
          }
        }
      } finally {
        signal.removeEventListener("abort", hangUp);
        hangUp();
      }
    },
  };
};

/** A read that outlasts its own limit by far hangs on a connection that is dead without saying so. */
const inTime = async <Value>(reading: Promise<Value>): Promise<Value> => {
  const limit = new AbortController();
  const late = delay(block + patience, undefined, { signal: limit.signal }).then(() => {
    throw new Error("no answer in time");
  });
  late.catch(() => undefined);
  try {
    return await Promise.race([reading, late]);
  } finally {
    limit.abort();
    reading.catch(() => undefined);
  }
};

const parse = (text: string): Message | null => {
  try {
    return Message.parse(JSON.parse(text));
  } catch {
    return null;
  }
};
