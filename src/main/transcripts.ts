import { createHash, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { join } from "node:path";
import type { BridgeSettings } from "../config/bridge-variables.ts";
import type { Collected } from "../contract/transcript.ts";
import { connectKv } from "../kv/connect.ts";
import { createRedisNotifier } from "../kv/redis-notifier.ts";
import type { Log } from "../lib/log.ts";
import { createRedisLocks } from "../store/redis-leases.ts";
import { createCollector, type Collector } from "../transcripts/collector.ts";
import type { Corpus } from "../transcripts/corpus.ts";
import { catchUp, followCorpus } from "../transcripts/follow-corpus.ts";
import { machineId } from "./machine-id.ts";
import { openRedisCorpus } from "../transcripts/redis-corpus.ts";
import { runCollector, whileElected } from "../transcripts/run-collector.ts";
import { openTranscriptIndex, type TranscriptIndex } from "../transcripts/transcript-index.ts";

export type Transcripts = {
  index: TranscriptIndex;
  /** The file of the index. */
  path: string;
  /** Brings the index up to date with the files. */
  collect: (signal: AbortSignal) => Promise<Collected>;
  progress: Collector["progress"];
  /** Does so until the signal aborts. */
  keepUpToDate: (signal: AbortSignal) => Promise<unknown>;
  close: () => Promise<void>;
};

/** Opens the index, and the store that it shares with other instances if there is one. */
export const openTranscripts = (settings: BridgeSettings, log: Log): Promise<Transcripts> =>
  settings.kvUrl === null ? openOwn(settings, log) : openShared({ ...settings, kvUrl: settings.kvUrl }, log);

const collectorOf = (
  { agentHomes: homes, codexHome, retentionDays }: BridgeSettings,
  rest: { corpus: Corpus; log: Log; machine?: string },
) => createCollector({ homes, codexHome, now: () => new Date(), retentionDays, ...rest });

/** The index is the store. */
const openOwn = async (settings: BridgeSettings, log: Log): Promise<Transcripts> => {
  const path = join(settings.directory, "transcripts.db");
  const index = openTranscriptIndex({ path, log });
  const collector = collectorOf(settings, { corpus: index, log });
  const { pollInterval } = settings;
  return {
    index,
    path,
    collect: collector.collect,
    progress: collector.progress,
    keepUpToDate: (signal) => runCollector({ collector, pollInterval, log, signal }),
    close: async () => index.close(),
  };
};

/** How long after its end another instance collects in place of this one, seconds. */
const leaseSeconds = 10;

/** Of the instances of a machine one collects into the key-value store; each has an index of its own of what is there. */
const openShared = async (settings: BridgeSettings & { kvUrl: string }, log: Log): Promise<Transcripts> => {
  const { kvUrl: url, kvOptionsFile: optionsFile, kvKeyPrefix: prefix, pollInterval } = settings;
  const machine = settings.machine ?? machineId(settings.directory);
  const kv = await connectKv({ url, optionsFile, prefix, log });
  const notifier = createRedisNotifier({ kv, log });
  const locks = createRedisLocks({ kv, leaseSeconds, owner: { podName: hostname(), epoch: randomUUID() } });
  const corpus = openRedisCorpus({ kv, notifier });
  // An index of its own for each store: a store that has lost sources gets them back from it.
  const digest = createHash("sha256").update(`${prefix} ${url}`).digest("hex").slice(0, 12);
  const path = join(settings.directory, `shared-${digest}.db`);
  const index = openTranscriptIndex({ path, log });
  const collector = collectorOf(settings, { corpus, log, machine });
  return {
    index,
    path,
    collect: async (signal) => {
      const collected = await collector.collect(signal);
      await catchUp(corpus, index, { position: null, signal });
      return collected;
    },
    progress: collector.progress,
    keepUpToDate: (signal) =>
      Promise.all([
        followCorpus(corpus, index, { signal, log }),
        whileElected({ locks, name: `transcripts:${machine}`, signal }, (elected) =>
          runCollector({ collector, pollInterval, log, signal: elected }),
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
