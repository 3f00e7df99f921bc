/**
 * What was collected: sources, which are files, and their bytes in chunks of whole lines. It is the truth from which the
 * index is derived; a source stays when its file is deleted.
 */

/**
 * `session`: a transcript; `subagent`: that of a subagent, which belongs to a session; `codex`: a rollout of Codex;
 * `history`: the prompts that users typed; `origins`: which job or conversation a session belongs to, written by the job
 * orchestrator. Plans and memory files are read whole: a change replaces them.
 */
export type SourceKind = "session" | "subagent" | "codex" | "history" | "origins" | "plan" | "memory";

export type Source = {
  /** Stable and unique: a digest of the machine, the home directory and the path below it. */
  id: string;
  /** BRIDGE_MACHINE of the instance that collected it; empty without a shared store. */
  machine: string;
  kind: SourceKind;
  /** Absolute path of the file; shown, never opened on a caller's word. */
  path: string;
  /** Directory below `projects/` that the file lies in; empty for plans, the history and Codex. */
  project_encoded: string;
  /** The session: file name without `.jsonl`, or the directory a subagent's transcript lies in; empty for documents. */
  session_id: string;
  /** File name without directory and without `.jsonl` or `.md`. */
  name: string;
  /** Size of the file when it was last read, bytes. */
  size: number;
  /** Unix time, ms. */
  modified: number;
  /** When the file was made, as far as the file system tells, Unix time, ms: tells a session from its forks. */
  created?: number;
  /** Identifies the file beyond its name: `device:inode`. */
  file_id: string;
  /** Counts how often the content was read from the beginning: after truncation or replacement. */
  generation: number;
  /** Bytes that were collected: the end of the last whole line. */
  collected: number;
  /** Digest of the first bytes and of the last ones before `collected`: tells an appended file from a replaced one. */
  fingerprint: string;
  deleted: boolean;
};

/** Bytes of a source from `from` on: whole lines, each with its line feed; of a plan or memory file, everything. */
export type Chunk = { from: number; bytes: Uint8Array };

/** Where the collector writes. */
export type Corpus = {
  sources: () => Promise<Map<string, Source>>;
  source: (id: string) => Promise<Source | undefined>;
  /**
   * Stores a source, new or changed, together with a chunk that follows what it has. A larger `generation` drops what the one
   * before had. Atomic.
   * @returns false: the chunk does not follow what is stored, since another process was faster; nothing was stored
   */
  put: (source: Source, chunk?: Chunk) => Promise<boolean>;
  /** Removes sources with everything derived from them: retention. */
  remove: (ids: readonly string[]) => Promise<void>;
};

/** Whether the chunk continues what is stored. */
export const follows = (stored: Source | undefined, source: Source, chunk: Chunk | undefined): boolean => {
  if (stored !== undefined && source.generation < stored.generation) return false;
  const end = stored?.generation === source.generation ? stored.collected : 0;
  return (chunk?.from ?? end) === end && end + (chunk?.bytes.length ?? 0) === source.collected;
};
