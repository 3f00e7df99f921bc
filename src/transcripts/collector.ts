import type { Collected } from "../contract/transcript.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import type { Log } from "../lib/log.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import type { Corpus, Source } from "./corpus.ts";
import { codeOf, discover, isBelow, sessionIn, sourceId, type Found, type Root } from "./discovery.ts";
import { holds, isUnchanged, readNew } from "./file-reader.ts";
import { matchFiles } from "./match-files.ts";

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
};

/** How often a file is read again because another collector was faster. */
const attempts = 5;

/** A file that changed so shortly before it was read may change again without a new time, ms. */
const clockGrain = 50;

/** How much of the files has been read, and how much there is. */
export type Progress = { collected_bytes: number; total_bytes: number };

/** Brings a corpus up to date with the files of the agents. */
export const createCollector = (options: Options) => {
  const { homes, codexHome, machine = "", corpus, log, now, retentionDays = 0 } = options;
  const warnings = createWarnOnce();
  const mutex = createKeyedMutex();
  const unsettled = new Set<string>();
  let directories: readonly string[] = [];
  let progress: Progress = { collected_bytes: 0, total_bytes: 0 };
  const advance = (bytes: number): void => {
    progress.collected_bytes = Math.min(progress.collected_bytes + bytes, progress.total_bytes);
  };
  const roots: Root[] = [
    ...homes.map((path): Root => ({ path, format: "claude", machine })),
    { path: codexHome, format: "codex", machine },
  ];

  const isOwn = (source: Source): boolean => source.machine === machine;

  const refuse = (path: string, why: string): void =>
    warnings.once(path, () => log.warn({ path }, `not collected: ${why}`));

  /** Stores what is new in a file. @throws Error of the corpus */
  const collectFile = async (source: Source, tally: Tally, signal: AbortSignal): Promise<void> => {
    let current = source;
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      const outcome = await storeNew(current, tally, signal);
      if (outcome === "done") return;
      current = (await corpus.sources()).get(source.id) ?? { ...source, ...nothingCollected };
    }
    unsettled.add(source.path);
  };

  const storeNew = async (
    source: Source,
    tally: Tally,
    signal: AbortSignal,
  ): Promise<"done" | "overtaken"> => {
    const isDocument = source.kind === "plan" || source.kind === "memory";
    const pieces = readNew(source, isDocument);
    let { session_id: session, generation } = source;
    try {
      for (;;) {
        signal.throwIfAborted();
        const piece = await pieces.next().catch((error: unknown) => {
          // A file that is gone is noticed at the next look.
          if (codeOf(error) !== "ENOENT") refuse(source.path, `it cannot be read (${codeOf(error)})`);
          return null;
        });
        if (piece === null || piece.done === true) return "done";
        const { chunk } = piece.value;
        const isNew = piece.value.source.generation !== generation;
        generation = piece.value.source.generation;
        if (isNew && isToldByLines(source)) session = "";
        if (source.kind === "subagent" && session === "" && chunk !== null) session = sessionIn(chunk.bytes);
        const next = { ...piece.value.source, session_id: session };
        if (!(await corpus.put(next, chunk === null ? [] : [chunk]))) return "overtaken";
        warnings.clear(source.path);
        if (now().getTime() - next.modified < clockGrain) unsettled.add(next.path);
        if (chunk === null) continue;
        advance(chunk.bytes.length);
        tally.add(next, chunk.bytes);
      }
    } finally {
      await pieces.return(undefined);
    }
  };

  /** A renamed file stays the same source; what its path says changes. */
  const moved = async (source: Source, file: Found): Promise<Source> => {
    if (source.path === file.path) return source;
    const { kind, path, project_encoded, session_id, name } = file;
    const next = { ...source, kind, path, project_encoded, session_id, name };
    // Only the lines tell the session: they are read anew.
    if (isToldByLines(next)) return { ...next, fingerprint: "" };
    await corpus.put(next, []);
    return next;
  };

  const look = async (found: readonly Found[], unread: readonly string[], signal: AbortSignal) => {
    const tally = createTally();
    const sources = await corpus.sources();
    const below = roots.map(({ path }) => path);
    const known = [...sources.values()].filter((source) => isOwn(source) && isBelow(source.path, below));
    const recent = new Set(unsettled);
    unsettled.clear();
    const { pairs, fresh, gone } = await matchFiles(found, known, (path, source) =>
      holds(path, source).catch(() => false),
    );
    // Those whose file is gone go first: another file may take their place.
    for (const source of gone) {
      signal.throwIfAborted();
      if (!source.deleted && !isBelow(source.path, unread))
        await corpus.put({ ...source, deleted: true }, []);
    }
    for (const [source, file] of pairs) {
      advance(source.collected);
      if (source.path === file.path && isUnchanged(source, file) && !recent.has(file.path)) continue;
      await collectFile(await moved(source, file), tally, signal);
    }
    for (const file of fresh) {
      const id = sources.has(file.id) ? sourceId(file.id, file.file_id, String(now().getTime())) : file.id;
      await collectFile({ ...file, id, ...nothingCollected }, tally, signal);
    }
    return tally;
  };

  const forget = async (): Promise<void> => {
    if (retentionDays === 0) return;
    const before = now().getTime() - retentionDays * 86_400_000;
    const old = [...(await corpus.sources()).values()].filter(
      (source) => isOwn(source) && source.deleted && source.modified < before,
    );
    if (old.length > 0) await corpus.remove(old.map(({ id }) => id));
  };

  const collect = async (signal: AbortSignal): Promise<Collected> => {
    const begin = performance.now();
    const all = await discover(roots, refuse);
    directories = all.directories;
    progress = { collected_bytes: 0, total_bytes: all.found.reduce((sum, { size }) => sum + size, 0) };
    const tally = await look(all.found, all.unread, signal);
    await forget();
    return {
      files_scanned: all.found.length,
      ...tally.counts(),
      duration_ms: Math.round(performance.now() - begin),
    };
  };

  return {
    /** Reads what is new. One after another. @throws ServiceError of the corpus; the signal's reason */
    collect: (signal: AbortSignal): Promise<Collected> => mutex.runExclusive("", () => collect(signal)),
    /** Directories that the last look went through. */
    directories: () => directories,
    /** Of the last look, or the one that is under way. */
    progress: () => ({ ...progress }),
  };
};

export type Collector = ReturnType<typeof createCollector>;

/** Whether only the lines tell the session: the path of an old subagent's transcript does not. */
const isToldByLines = ({ kind, path, session_id }: Source): boolean =>
  kind === "subagent" && (session_id === "" || !path.includes(`/${session_id}/`));

const nothingCollected = {
  size: -1,
  generation: 0,
  collected: 0,
  fingerprint: "",
  deleted: false,
};

type Tally = ReturnType<typeof createTally>;

const createTally = () => {
  const sessions = new Set<string>();
  const documents = { plan: new Set<string>(), memory: new Set<string>() };
  let entries = 0;
  let prompts = 0;
  return {
    add: ({ id, kind, session_id }: Source, bytes: Uint8Array): void => {
      if (kind === "plan" || kind === "memory") return void documents[kind].add(id);
      if (kind === "origins") return;
      if (kind === "history") return void (prompts += countLines(bytes));
      sessions.add(session_id);
      entries += countLines(bytes);
    },
    counts: () => ({
      sessions_updated: sessions.size,
      entries_added: entries,
      memory_files_indexed: documents.memory.size,
      plans_indexed: documents.plan.size,
      history_entries_added: prompts,
    }),
  };
};

const countLines = (bytes: Uint8Array): number => {
  let count = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) count += 1;
  return count;
};
