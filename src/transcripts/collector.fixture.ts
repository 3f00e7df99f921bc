import { hash } from "node:crypto";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createCollector } from "./collector.ts";
import type { Chunk, Corpus, Source } from "./corpus.ts";
import { quiet } from "./transcript-index.fixture.ts";

export type MemoryCorpus = Corpus & { bytesOf: (id: string) => Buffer };

/** The simplest corpus: what others must be equal to. */
export const createMemoryCorpus = (): MemoryCorpus => {
  const stored = new Map<string, { source: Source; bytes: Buffer }>();
  return {
    sources: async () => new Map(Array.from(stored, ([id, { source }]) => [id, source])),
    source: async (id) => stored.get(id)?.source,
    put: async (source: Source, chunk?: Chunk) => {
      const before = stored.get(source.id);
      if (before !== undefined && source.generation < before.source.generation) return false;
      const kept = before?.source.generation === source.generation ? before.bytes : Buffer.alloc(0);
      const bytes = Buffer.concat([kept, chunk?.bytes ?? Buffer.alloc(0)]);
      if ((chunk?.from ?? kept.length) !== kept.length || bytes.length !== source.collected) return false;
      stored.set(source.id, { source, bytes });
      return true;
    },
    remove: async (ids) => ids.forEach((id) => stored.delete(id)),
    bytesOf: (id) => stored.get(id)?.bytes ?? Buffer.alloc(0),
  };
};

/** What is stored of the files that are there: by path, kind and session. */
export const contentOf = async (corpus: MemoryCorpus): Promise<Record<string, string>> =>
  Object.fromEntries(
    [...(await corpus.sources()).values()]
      .filter(({ deleted }) => !deleted)
      .map(({ id, path, kind, session_id }): [string, string] => [
        path,
        `${kind} ${session_id} ${hash("sha256", corpus.bytesOf(id))}`,
      ])
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );

export const never = new AbortController().signal;

/** A directory of the agent in a directory of its own, and what is collected from it. */
export const openHome = async (corpus: MemoryCorpus = createMemoryCorpus()) => {
  const home = await temporaryDirectory();
  const warnings: string[] = [];
  const log = { ...quiet, warn: (_: unknown, text?: string) => void warnings.push(String(text)) };
  const make = (into: Corpus = corpus, rest: { retentionDays?: number; now?: () => Date } = {}) =>
    createCollector({
      homes: [home],
      codexHome: join(home, "codex"),
      corpus: into,
      log,
      now: () => new Date(),
      ...rest,
    });
  const collector = make();
  return {
    home,
    warnings,
    corpus,
    make,
    collect: () => collector.collect(never),
    write: async (path: string, text: string | Buffer) => {
      await mkdir(dirname(join(home, path)), { recursive: true });
      await writeFile(join(home, path), text);
    },
    append: (path: string, text: string | Buffer) => appendFile(join(home, path), text),
    text: async (path: string): Promise<string> => {
      const source = [...(await corpus.sources()).values()].find((one) => one.path === join(home, path));
      return source === undefined ? "not there" : corpus.bytesOf(source.id).toString("utf8");
    },
    source: async (path: string) =>
      [...(await corpus.sources()).values()].find((one) => one.path === join(home, path)),
  };
};

/** A corpus that is filled at once with what the files hold. */
export const freshRead = async ({ make }: { make: (into: Corpus) => ReturnType<typeof createCollector> }) => {
  const corpus = createMemoryCorpus();
  await make(corpus).collect(never);
  return contentOf(corpus);
};
