import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connectKv } from "../src/kv/connect.ts";
import type { Kv } from "../src/kv/kv.ts";
import { createLog } from "../src/lib/log.ts";
import { afterFile } from "./cleanup.ts";
import { temporaryDirectory } from "./temporary.ts";

let made = 0;

/** The `KV_OPTIONS_FILE` of stores that a URL alone does not describe, by their URL. */
const optionsFiles = new Map<string, string>();

export const optionsFileOf = (url: string): string | null => optionsFiles.get(url) ?? null;

/** Has the options used for this URL; returns the URL. */
export const withOptions = async (url: string, options: object): Promise<string> => {
  const file = join(await temporaryDirectory(), "kv-options.json");
  await writeFile(file, JSON.stringify(options));
  optionsFiles.set(url, file);
  return url;
};

/** A connection to a test's store, under a prefix of its own unless one is given; closed after the file. */
export const openKv = async (url: string, prefix = `test${process.pid}-${(made += 1)}`): Promise<Kv> => {
  const optionsFile = optionsFileOf(url);
  const kv = await connectKv({ url, optionsFile, prefix, log: createLog("silent", (text) => text) });
  afterFile(() => kv.close());
  return kv;
};

const under = (kv: Kv, prefix: string): Kv => ({
  ...kv,
  prefix,
  key: (...parts) => [prefix, ...parts].join(":"),
  jobKey: (...parts) => [`{${prefix}:j}`, ...parts].join(":"),
});

/** Two instances on an empty store, as often as it is called: the two connections are made once for each address. */
export const kvPairs = () => {
  const pairs = new Map<string, Promise<[Kv, Kv]>>();
  return async (url: () => Promise<string>): Promise<[Kv, Kv]> => {
    const address = await url();
    const pair = pairs.get(address) ?? Promise.all([openKv(address), openKv(address)]);
    pairs.set(address, pair);
    const [[a, b], prefix] = [await pair, `test-${randomUUID()}`];
    return [under(a, prefix), under(b, prefix)];
  };
};
