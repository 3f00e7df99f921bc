import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Kv } from "../kv/kv.ts";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { nonBlocking, nullIfMissing } from "../lib/non-blocking.ts";
import { isJobId } from "./job-record.ts";
import { secretIndexes } from "./secret-store.ts";

/** Raise it with every change of what is stored: a store of another number is refused, nothing is converted. */
const storeFormat = 4;

/** A store and its number. `elsewhere`: how to begin with an empty one. */
type Place = {
  name: string;
  elsewhere: string;
  read: () => Promise<string | null>;
  write: (number: string) => Promise<unknown>;
  hasRecords: () => Promise<boolean>;
};

/**
 * Refuses a store of another format, or with records and no number. `mark`: an empty one gets this program's number.
 * @throws Error with a sentence for the operator
 */
export const requireFormat = async (place: Place, { mark }: { mark: boolean }): Promise<void> => {
  let found = await place.read();
  if (found === null) {
    if (!(await place.hasRecords())) {
      if (!mark) return;
      await place.write(String(storeFormat));
    }
    // Read again also because another instance may have begun the store meanwhile.
    found = await place.read();
  }
  if (found?.trim() === String(storeFormat)) return;
  const has = found === null ? "records and no format number" : `the format ${shortened(found)}`;
  throw new Error(
    `The ${place.name} has ${has}, this program's format is ${storeFormat}: drain it with the version that made it, or start with an empty ${place.elsewhere}`,
  );
};

/** `.format` in the directory of job files. */
export const inFiles = (jobsDir: string): Place => ({
  name: `store in ${jobsDir}`,
  elsewhere: "directory (SERVICE_JOBS_DIR)",
  read: () =>
    readFile(formatFile(jobsDir), { encoding: "utf8", flag: nonBlocking.read }).catch(nullIfMissing),
  write: (number) => writeFileAtomic(formatFile(jobsDir), `${number}\n`),
  hasRecords: async () => {
    const namesIn = async (directory: string): Promise<string[]> =>
      ((await readdir(join(jobsDir, directory)).catch(nullIfMissing)) ?? []).filter((name) =>
        name.endsWith(".json"),
      );
    const kinds = ["worktrees", "files", "secrets", "conversations", "completions"];
    const others = await Promise.all(kinds.map(namesIn));
    return others.flat().length > 0 || (await namesIn("")).some((name) => isJobId(name.slice(0, -5)));
  },
});

const formatFile = (jobsDir: string): string => join(jobsDir, ".format");

/** The key `{prefix}:format`. */
export const inKv = (kv: Kv): Place => ({
  name: `key-value store (KV_KEY_PREFIX ${kv.prefix})`,
  elsewhere: "one (KV_URL, or another KV_KEY_PREFIX)",
  read: () => kv.ask((client) => client.get(kv.key("format"))),
  write: (number) => kv.ask((client) => client.set(kv.key("format"), number, "NX")),
  // By the indexes that have all of a kind.
  hasRecords: async () => {
    const indexes = ["all", "prepared", "completions", ...secretIndexes].map((name) => kv.jobKey(name));
    return (await kv.ask((client) => client.exists(...indexes))) > 0;
  },
});

/** How often the number is written again where it is gone, ms: a store that was emptied in use keeps its number. */
const markEvery = 30_000;

/** Until the returned function is called. */
export const keepMarked = (kv: Kv): (() => void) => {
  const mark = (): void =>
    void inKv(kv)
      .write(String(storeFormat))
      .catch(() => undefined);
  const timer = setInterval(mark, markEvery).unref();
  return () => clearInterval(timer);
};

const shortened = (text: string): string => JSON.stringify(text.trim().slice(0, 20)).slice(1, -1);
