import { failureOf } from "../../kv/failure.ts";
import type { Kv, KvClient } from "../../kv/kv.ts";

/**
 * What a command reads; an empty text for a key that holds something else than we write there: one that somebody spoilt
 * is no record, and says nothing of the store.
 */
export const readText = async (
  kv: Kv,
  read: (client: KvClient) => Promise<string | null>,
): Promise<string | null> =>
  await kv.ask(read).catch((error: unknown) => {
    if (failureOf(error) !== "value") throw error;
    return "";
  });
