import type { Settings } from "../config/variables.ts";
import { connectKv } from "../kv/connect.ts";
import type { Log } from "../lib/log.ts";
import { createRedisInstances } from "../store/redis-instances.ts";
import { createJobStore, jobKind } from "../store/job-store.ts";
import { openRedisRecords } from "../store/redis-records.ts";
import { untilDrained, type Drained } from "./drained.ts";

type Named = Pick<Settings, "kvKeyPrefix" | "podName" | "instanceLease"> & { kvUrl: string };
type Request = { timeout: number; signal: AbortSignal; say: (sentence: string) => void };

/**
 * Lets the instance of this name take no new jobs and waits until it runs none, at most `timeout` seconds. Needs the
 * store only, and little of the program: it is run by hooks that have not long.
 * @throws Error with a sentence for the operator when the store cannot be used
 */
export const drainInstance = async (
  { kvUrl, kvKeyPrefix, podName, instanceLease }: Named,
  { timeout, signal, say }: Request,
): Promise<Drained> => {
  const patience = Math.min(timeout * 1000, longestConnect);
  const kv = await connectKv({ url: kvUrl, prefix: kvKeyPrefix, log: silent, signal, patience }).catch(
    (error: unknown) => {
      if (signal.aborted) return null;
      throw error;
    },
  );
  if (kv === null) return { outcome: "interrupted", takenBack: false };
  try {
    const records = openRedisRecords(jobKind(podName), { kv, now: kv.now, log: silent });
    const store = createJobStore(records, podName);
    const instances = createRedisInstances({
      kv,
      name: podName,
      self: null,
      leaseSeconds: instanceLease,
      log: silent,
    });
    return await untilDrained({ store, instances }, { name: podName, timeout, signal, say });
  } finally {
    await kv.close();
  }
};

/** How long the store is tried for before it counts as out of reach, ms. */
const longestConnect = 15_000;

/** What there is to say is said to the operator, in sentences. */
const nothing = (): void => undefined;
const silent: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };
