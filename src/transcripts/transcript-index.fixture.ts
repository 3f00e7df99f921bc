import { createHash } from "node:crypto";
import { basename } from "node:path";
import type { Log } from "../lib/log.ts";
import type { Corpus, Source, SourceKind } from "./corpus.ts";
import type { SearchQuestion } from "./library.ts";

export const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** A source without content. */
export const newSource = (kind: SourceKind, path: string, rest: Partial<Source> = {}): Source => {
  const name = basename(path).replace(/\.(jsonl|md)$/, "");
  return {
    id: createHash("sha256").update(path).digest("hex").slice(0, 16),
    kind,
    path,
    machine: "",
    project_encoded: kind === "session" || kind === "memory" ? "-home-ana-app" : "",
    session_id: kind === "session" || kind === "codex" ? name : "",
    name,
    size: 0,
    modified: Date.parse("2026-03-01T00:00:00Z"),
    file_id: "1:1",
    generation: 0,
    collected: 0,
    fingerprint: "",
    deleted: false,
    ...rest,
  };
};

/** Puts `text` behind what the source has. @returns the source as it is stored now */
export const append = async (corpus: Corpus, source: Source, text: string | Buffer): Promise<Source> => {
  const bytes = Buffer.from(text as string);
  const end = source.collected + bytes.length;
  const next: Source = { ...source, collected: end, size: end };
  if (!(await corpus.put(next, { from: source.collected, bytes }))) throw new Error("the chunk was refused");
  return next;
};

export const lines = (...records: unknown[]): string =>
  records.map((record) => `${typeof record === "string" ? record : JSON.stringify(record)}\n`).join("");

let count = 0;
const envelope = () => ({
  uuid: `uuid-${(count += 1)}`,
  // Files share the count: a millisecond each keeps a file of thousands of lines within a minute.
  timestamp: new Date(Date.parse("2026-03-02T09:00:00Z") + count).toISOString(),
  sessionId: "any",
  cwd: "/home/ana/app",
  gitBranch: "main",
  isSidechain: false,
});

export const userLine = (content: unknown, rest: object = {}) => ({
  ...envelope(),
  type: "user",
  message: { role: "user", content },
  ...rest,
});

export const assistantLine = (content: unknown, rest: object = {}) => {
  const common = envelope();
  return {
    ...common,
    type: "assistant",
    message: {
      id: `msg-${common.uuid}`,
      role: "assistant",
      model: "claude-opus-4-8",
      content: typeof content === "string" ? [{ type: "text", text: content }] : content,
      usage: {
        input_tokens: 1,
        output_tokens: 2,
        cache_creation_input_tokens: 3,
        cache_read_input_tokens: 4,
      },
    },
    ...rest,
  };
};

export const question = (query: string, rest: Partial<SearchQuestion> = {}): SearchQuestion => ({
  query,
  project: "",
  limit: 10,
  since: null,
  until: null,
  role: "",
  cursor: "",
  exclude: [],
  ...rest,
});
