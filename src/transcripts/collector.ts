import type { Collected } from "../contract/transcript.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import type { Log } from "../lib/log.ts";
import { createNotifier } from "../lib/notifier.ts";
import { pause } from "../lib/wait.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import type { Corpus, Source } from "./corpus.ts";
import { codeOf, createDiscovery, isBelow, type FileState, type Found, type Root } from "./discovery.ts";
import { isUnchanged, readNew } from "./file-reader.ts";

type Options = {
  /** Directories of Claude Code. */
  homes: readonly string[];
  codexHome: string;
  /** Whose files these are, where several machines share the corpus. */
  machine?: string;
  corpus: Corpus;
  log: Log;
  now: () => Date;
  /** 0: sources whose file is deleted stay for ever. */
  retentionDays?: number;
  mostWatched?: number;
};

/** A file that changed so shortly before it was read may change again without a new time, ms. */
const clockGrain = 50;

/** How long changes are gathered before they are collected, ms. */
const gatherMs = 200;

/**
 * Each so many polls look at every file; the others at directories whose time has changed, and at so many files that changed
 * last.
 */
const pollsPerFullLook = 60;
const mostRecent = 100;

export type Skipped = { path: string; reason: string };

export type Progress = { collected_bytes: number; total_bytes: number };

/** Brings a corpus up to date with the files of the agents. */
export const createCollector = (options: Options) => {
  const { homes, codexHome, machine = "", corpus, log, now, retentionDays = 0, mostWatched = 4096 } = options;
  const roots = [
    ...homes.map((path): Root => ({ path, format: "claude", machine })),
    { path: codexHome, format: "codex", machine } as const,
  ];
  const warnings = createWarnOnce();
  const refuse = (path: string, why: string): void =>
    warnings.once(path, () => log.warn({ path }, `not collected: ${why}`));
  const unreadable = new Map<string, string>();
  const discovery = createDiscovery({ roots, mostWatched, refuse });
  const mutex = createKeyedMutex();
  /** Files as they were when they were collected. */
  const known = new Map<string, FileState>();
  /** Files that have to be looked at again. */
  const unsettled = new Set<string>();
  const recent = new Set<string>();
  let progress: Progress = { collected_bytes: 0, total_bytes: 0 };

  const collectFile = async (file: Found, stored: Source | undefined, { signal, tally }: Look) => {
    const begin = Math.min(stored?.collected ?? 0, file.size);
    recent.delete(file.path);
    recent.add(file.path);
    for (const path of recent) if (recent.size > mostRecent) recent.delete(path);
    const isSettled = now().getTime() - file.modified >= clockGrain;
    const end = await storeNew(corpus, {
      file,
      source: stored ?? { ...file, ...nothingCollected },
      signal,
      tally,
    });
    if (end === "stored" && isSettled) known.set(file.path, file);
    else known.delete(file.path);
    // A file that is gone is noticed at the next full look.
    if (!known.has(file.path) && codeOf(end) !== "ENOENT") unsettled.add(file.path);
    unreadable.delete(file.path);
    if (typeof end === "string") warnings.clear(file.path);
    else if (end.code !== "ENOENT") {
      unreadable.set(file.path, `it cannot be read (${codeOf(end)})`);
      refuse(file.path, `it cannot be read (${codeOf(end)})`);
    }
    progress.collected_bytes = Math.min(progress.collected_bytes + file.size - begin, progress.total_bytes);
  };

  const collectFiles = async (found: readonly Found[], sourceOf: Corpus["source"], look: Look) => {
    const again = new Set(unsettled);
    unsettled.clear();
    progress = { collected_bytes: 0, total_bytes: 0 };
    const changed = new Map<string, { file: Found; source: Source | undefined }>();
    // The newest sessions can be read soonest.
    for (const file of found.toSorted((a, b) => b.modified - a.modified)) {
      if (changed.has(file.id)) continue;
      const source = await sourceOf(file.id);
      const isRead = source !== undefined && isUnchanged(source, file) && !again.has(file.path);
      if (isRead) known.set(file.path, file);
      else changed.set(file.id, { file, source });
      progress.total_bytes += file.size;
      progress.collected_bytes += isRead ? file.size : Math.min(source?.collected ?? 0, file.size);
    }
    for (const { file, source } of changed.values()) await collectFile(file, source, look);
  };

  const lookAtAll = async (look: Look): Promise<number> => {
    const { found, unread } = await discovery.all();
    const sources = await corpus.sources();
    await collectFiles(found, async (id) => sources.get(id), look);
    const inSight = new Set(found.map(({ id }) => id));
    const below = roots.map(({ path }) => path);
    for (const source of sources.values()) {
      if (source.machine !== machine || source.deleted || inSight.has(source.id)) continue;
      look.signal.throwIfAborted();
      if (isBelow(source.path, below) && !isBelow(source.path, unread))
        await corpus.put({ ...source, deleted: true });
    }
    await forget();
    return found.length;
  };

  /** Looks at these paths, and at a poll at the directories that have changed. */
  const lookAt = async (paths: readonly string[], { isPoll, look }: { isPoll: boolean; look: Look }) => {
    const polled = isPoll ? [...recent, ...discovery.directories()] : [];
    const { found } = await discovery.at([...paths, ...unsettled, ...polled]);
    const changed = found.filter((file) => {
      const before = known.get(file.path);
      return before === undefined || !isUnchanged(before, file);
    });
    await collectFiles(changed, corpus.source, look);
  };

  const forget = async (): Promise<void> => {
    if (retentionDays === 0) return;
    const before = now().getTime() - retentionDays * 86_400_000;
    const old = [...(await corpus.sources()).values()].filter(
      (source) => source.machine === machine && source.deleted && source.modified < before,
    );
    if (old.length > 0) await corpus.remove(old.map(({ id }) => id));
  };

  const collect = async (signal: AbortSignal): Promise<Collected> => {
    const begin = performance.now();
    const tally = createTally();
    const files_scanned = await lookAtAll({ signal, tally });
    return { files_scanned, ...tally.counts, duration_ms: Math.round(performance.now() - begin) };
  };

  /**
   * Collects what changes soon after it changes, and each `pollInterval` seconds what was not noticed, until the signal
   * aborts.
   */
  const run = async ({ pollInterval, signal }: { pollInterval: number; signal: AbortSignal }) => {
    const { notify, waitFor } = createNotifier();
    const changed = new Set<string>();
    let polls = pollsPerFullLook;
    let isPoll = true;
    let isFailing = false;
    discovery.watch((path) => {
      changed.add(path);
      notify("change");
    });
    const timer = setInterval(() => {
      polls += 1;
      isPoll = true;
      notify("change");
    }, pollInterval * 1000).unref();
    try {
      while (!signal.aborted) {
        const woken = waitFor("change", signal);
        const isFull: boolean = isPoll && (polls >= pollsPerFullLook || isFailing);
        const look = { signal, tally: createTally() };
        try {
          const paths = [...changed];
          changed.clear();
          await mutex.runExclusive<unknown>("", () =>
            isFull ? lookAtAll(look) : lookAt(paths, { isPoll, look }),
          );
          [isPoll, polls] = [false, isFull ? 0 : polls];
          if (isFailing && isFull) log.info("transcripts are collected again");
          isFailing &&= !isFull;
          const left = discovery.unwatched();
          if (left > 0)
            warnings.once("", () =>
              log.warn(
                { directories: left },
                "not all directories can be watched: changes there are found at each poll",
              ),
            );
        } catch (err) {
          if (signal.aborted) return;
          if (!isFailing) log.warn({ err }, "transcripts cannot be collected at present");
          isFailing = true;
        }
        await woken;
        await pause(gatherMs, signal);
      }
    } finally {
      clearInterval(timer);
      discovery.unwatch();
    }
  };

  return {
    /** Reads what is new. One after another. @throws ServiceError of the corpus; the signal's reason */
    collect: (signal: AbortSignal): Promise<Collected> => mutex.runExclusive("", () => collect(signal)),
    run,
    /** The paths that look like transcripts and are not read, each with the reason. */
    skipped: async (): Promise<Skipped[]> => {
      const reasons = new Map(unreadable);
      const look = createDiscovery({
        roots,
        mostWatched: 0,
        refuse: (path, why) => void reasons.set(path, why),
      });
      await look.all();
      return Array.from(reasons, ([path, reason]) => ({ path, reason }));
    },
    /** Progress of the last look, or of the one under way. */
    progress: () => ({ ...progress }),
  };
};

type Look = { signal: AbortSignal; tally: ReturnType<typeof createTally> };

/** Stores what is new in a file. @returns why the file could not be read; "overtaken": another process was faster */
const storeNew = async (
  corpus: Corpus,
  { file, source, signal, tally }: Look & { file: Found; source: Source },
): Promise<"stored" | "overtaken" | NodeJS.ErrnoException> => {
  // The path of an old subagent's transcript does not tell its session: the first line that names one does.
  const isToldByLines = file.kind === "subagent" && file.session_id === "";
  let [session, generation] = [source.session_id, source.generation];
  try {
    for await (const { chunk, source: next } of readNew(source)) {
      signal.throwIfAborted();
      if (isToldByLines && next.generation !== generation) session = "";
      if (isToldByLines && session === "" && chunk !== undefined) session = sessionIn(chunk.bytes);
      ({ generation } = next);
      // A file that is written anew is as old as the one it replaces.
      const created = Math.min(source.created ?? Infinity, next.created ?? Infinity);
      const named = { ...next, session_id: session, created };
      if (!(await corpus.put(named, chunk))) return "overtaken";
      if (chunk !== undefined) tally.add(named, chunk.bytes);
    }
    return "stored";
  } catch (error) {
    // Only errors of the file's own reading name a system call.
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    return error as NodeJS.ErrnoException;
  }
};

const sessionIn = (lines: Uint8Array): string => {
  const [, id = ""] = /"sessionId"\s*:\s*"([^"\\]+)"/.exec(Buffer.from(lines).toString("latin1")) ?? [];
  return id;
};

const nothingCollected = { size: -1, generation: 0, collected: 0, fingerprint: "", deleted: false };

const createTally = () => {
  const sessions = new Set<string>();
  const counts = {
    sessions_updated: 0,
    entries_added: 0,
    memory_files_indexed: 0,
    plans_indexed: 0,
    history_entries_added: 0,
  };
  const add = ({ kind, session_id }: Source, bytes: Uint8Array): void => {
    if (kind === "plan") counts.plans_indexed += 1;
    else if (kind === "memory") counts.memory_files_indexed += 1;
    else if (kind === "history") counts.history_entries_added += countLines(bytes);
    else if (kind !== "origins") {
      counts.entries_added += countLines(bytes);
      counts.sessions_updated = sessions.add(session_id).size;
    }
  };
  return { add, counts };
};

const countLines = (bytes: Uint8Array): number => {
  let count = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) count += 1;
  return count;
};
