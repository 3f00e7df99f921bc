import { connectKv } from "../src/kv/connect.ts";
import type { Kv } from "../src/kv/kv.ts";
import { createLog } from "../src/lib/log.ts";
import { afterFile } from "./cleanup.ts";

let made = 0;

/** A connection to a test's store, under a prefix of its own unless one is given; closed after the file. */
export const openKv = async (url: string, prefix = `test${process.pid}-${(made += 1)}`): Promise<Kv> => {
  const kv = await connectKv({ url, prefix, log: createLog("silent", (text) => text) });
  afterFile(() => kv.close());
  return kv;
};
