import { createHash, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { join } from "node:path";
import type { BridgeSettings } from "../config/bridge-variables.ts";
import type { Log } from "../lib/log.ts";
import { pause } from "../lib/wait.ts";
import type { Notifier } from "../lib/notifier.ts";
import type { Locks } from "../store/locks.ts";
import { createRedisLocks } from "../store/redis-leases.ts";
import { createCollector } from "../transcripts/collector.ts";
import { machineId } from "./machine-id.ts";
import { openSharedCorpus } from "../transcripts/shared-corpus.ts";
import { openTranscriptIndex } from "../transcripts/transcript-index.ts";

/** Opens the index, and the store that it shares with other instances if there is one. */
export const openTranscripts = (settings: BridgeSettings, log: Log) =>
  settings.kvUrl === null ? openOwn(settings, log) : openShared({ ...settings, kvUrl: settings.kvUrl }, log);

const filesOf = ({ agentHomes: homes, codexHome, retentionDays }: BridgeSettings) => ({
  homes,
  codexHome,
  retentionDays,
  now: () => new Date(),
});

/** The index is the store. */
const openOwn = async (settings: BridgeSettings, log: Log) => {
  const path = join(settings.directory, "transcripts.db");
  const index = openTranscriptIndex({ path, log });
  const { run, ...collector } = createCollector({ ...filesOf(settings), corpus: index, log });
  const keepUpToDate = (signal: AbortSignal) => run({ pollInterval: settings.pollInterval, signal });
  return { index, path, ...collector, keepUpToDate, close: async () => index.close() };
};

/** How long a crashed instance keeps others from collecting in its place, seconds. */
const leaseSeconds = 60;

/** How late a lost notification is noticed, ms. Each wait that ends costs processor time while nothing happens. */
const longestWait = 30_000;

/** Time between two removals of what nobody needs any more from the key-value store, ms. */
const compactEveryMs = 6 * 3_600_000;

/** One instance of a machine collects into the key-value store; each has an index of its own of what is there. */
const openShared = async (settings: BridgeSettings & { kvUrl: string }, log: Log) => {
  const { kvUrl: url, kvOptionsFile: optionsFile, kvKeyPrefix: prefix, pollInterval } = settings;
  const machine = settings.machine ?? machineId(settings.directory);
  const [{ connectKv }, { createRedisNotifier }] = await Promise.all([
    import("../kv/connect.ts"),
    import("../kv/redis-notifier.ts"),
  ]);
  const kv = await connectKv({ url, optionsFile, prefix, log });
  const notifier = createRedisNotifier({ kv, log, maxWait: longestWait });
  const locks = createRedisLocks({ kv, leaseSeconds, owner: { podName: hostname(), epoch: randomUUID() } });
  // An index of its own for each store: a store that has lost sources gets them back from it.
  const digest = createHash("sha256").update(`${prefix} ${url}`).digest("hex").slice(0, 12);
  const path = join(settings.directory, `shared-${digest}.db`);
  const index = openTranscriptIndex({ path, log });
  const corpus = openSharedCorpus({ kv, notifier, locks, index, log });
  const { run, ...collector } = createCollector({ ...filesOf(settings), corpus, log, machine });
  const compact = async (signal: AbortSignal): Promise<void> => {
    for (await pause(compactEveryMs, signal); !signal.aborted; await pause(compactEveryMs, signal))
      await corpus
        .compact(signal)
        .catch((err: unknown) => log.warn({ err }, "the shared transcripts keep what is old"));
  };
  return {
    index,
    path,
    ...collector,
    keepUpToDate: (signal: AbortSignal) =>
      Promise.all([
        corpus.follow(signal),
        whileElected({ locks, notifier, name: `transcripts:${machine}`, signal }, (elected) =>
          Promise.all([run({ pollInterval, signal: elected }), compact(elected)]),
        ),
      ]),
    close: async () => {
      await locks.close();
      await notifier.close();
      await kv.close();
      index.close();
    },
  };
};

type Election = { locks: Locks; notifier: Notifier; name: string; signal: AbortSignal };

/** Runs `work` while this instance has the lock, of all that share the locks at most one. Who ends tells the others. */
const whileElected = async (
  { locks, notifier, name, signal }: Election,
  work: (signal: AbortSignal) => Promise<unknown>,
): Promise<void> => {
  while (!signal.aborted) {
    const released = notifier.waitFor(name, signal);
    const lock = await locks.take(name).catch(() => null);
    if (lock !== null)
      try {
        await work(AbortSignal.any([signal, lock.lost]));
      } finally {
        await lock.release();
        if (signal.aborted) notifier.notify(name);
      }
    await released;
  }
};
