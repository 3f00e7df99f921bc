import { Queue as BullQueue } from "bullmq";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { here } from "../../test/ports/queue-suite.ts";
import type { Kv } from "../kv/kv.ts";
import { createLog } from "../lib/log.ts";
import { createBullQueue } from "./bullmq-queue.ts";

const silent = createLog("silent", (text) => text);

type Options = Partial<Parameters<typeof createBullQueue>[0]> & { kv: Kv };

/** Closed after the file. */
export const openOn = (options: Options, create = createBullQueue) => {
  const thrown: string[] = [];
  const queue = create({
    podName: here,
    concurrency: 1,
    lockSeconds: 3,
    onError: (_error, id) => thrown.push(id),
    log: silent,
    ...options,
  });
  afterFile(() => queue.close());
  return { queue, thrown };
};

export const ids = (count: number): string[] => Array.from({ length: count }, (_, at) => `job-${at}`);

/** Another instance on the same store, with a connection of its own. */
export const another = async (kv: Kv, url: string, options: Partial<Options> = {}) =>
  openOn({ podName: "another", ...options, kv: await openKv(url, kv.prefix) });

/** What BullMQ itself says of the queue that all instances share, and of that of an instance. */
export const countsOf = async (kv: Kv, name = "jobs") => {
  const queue = new BullQueue(name, { connection: kv.client, prefix: `{${kv.prefix}:q}` });
  try {
    return await queue.getJobCounts("wait", "active", "delayed", "completed", "failed");
  } finally {
    await queue.close();
  }
};
