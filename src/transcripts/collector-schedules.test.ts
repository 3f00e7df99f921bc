import { appendFile, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  contentOf,
  createMemoryCorpus,
  freshRead,
  never,
  openHome,
  type MemoryCorpus,
} from "./collector.fixture.ts";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedis } from "../../test/redis.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createRedisNotifier } from "../kv/redis-notifier.ts";
import { createLocalLocks } from "../store/locks.ts";
import type { Corpus } from "./corpus.ts";
import { openSharedCorpus } from "./shared-corpus.ts";
import { quiet } from "./transcript-index.fixture.ts";
import { openTranscriptIndex, type TranscriptIndex } from "./transcript-index.ts";

/** Writes to both, which must accept and refuse alike. */
const inBoth = (one: MemoryCorpus, other: Corpus): MemoryCorpus => ({
  ...one,
  put: async (source, chunk) => {
    const answers = [await one.put(source, chunk), await other.put(source, chunk)];
    expect(answers[1]).toBe(answers[0]);
    return answers[0] ?? false;
  },
  remove: async (ids) => {
    await one.remove(ids);
    await other.remove(ids);
  },
});

type Change =
  | { do: "append"; file: number; bytes: Uint8Array }
  | { do: "replace" | "truncate"; file: number; bytes: Uint8Array }
  | { do: "rename"; file: number; to: number }
  | { do: "delete"; file: number };

type Step = Change | { do: "poll" | "restart" | "lose" } | { do: "crash"; after: number };

const names = [
  "projects/-p/a.jsonl",
  "projects/-p/b.jsonl",
  "projects/-q/a.jsonl",
  "projects/-p/a/subagents/agent-1.jsonl",
  "projects/-p/agent-2.jsonl",
  "projects/-p/memory/MEMORY.md",
  "plans/p.md",
  "history.jsonl",
];

const file = fc.nat(names.length - 1);
const bytes = fc
  .array(
    fc.constantFrom("a\n", "\n", "ü", "🤔\n", '{"sessionId":"s"}\n', "half", "x".repeat(5000), "b\nc\n"),
    { maxLength: 6 },
  )
  .chain((parts) =>
    fc.nat(40).map((cut) => Buffer.from(parts.join("")).subarray(0, Math.max(0, 5100 - cut))),
  );
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("append" as const), file, bytes }) },
  fc.record({ do: fc.constantFrom("replace" as const, "truncate" as const), file, bytes }),
  fc.record({ do: fc.constant("rename" as const), file, to: file }),
  fc.record({ do: fc.constant("delete" as const), file }),
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom("poll" as const, "restart" as const) }) },
  fc.record({ do: fc.constant("crash" as const), after: fc.nat(3) }),
  fc.record({ do: fc.constant("lose" as const) }),
);

type Store = {
  corpus: Corpus;
  /** What a reader of the store has. */
  read: () => Promise<TranscriptIndex>;
  /** The store loses everything; its readers give it back. */
  lose: () => Promise<void>;
};

const afterAnySchedule = async (open: (index: TranscriptIndex) => Promise<Store>, numRuns: number) => {
  const directory = await temporaryDirectory();
  let made = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25, size: "max" }), async (steps) => {
      const index = openTranscriptIndex({ path: join(directory, `${(made += 1)}.db`), log: quiet });
      const store = await open(index);
      const home = await openHome(inBoth(createMemoryCorpus(), store.corpus));
      let collector = home.make();
      for (const one of steps) {
        if ("file" in one) await change(home.home, one);
        else if (one.do === "poll") await collector.collect(never);
        else if (one.do === "restart") collector = home.make();
        else if (one.do === "lose") await store.lose();
        else if (one.do === "crash") {
          let left = one.after;
          const failing = {
            ...home.corpus,
            put: async (...args: Parameters<Corpus["put"]>) => {
              if ((left -= 1) < 0) throw new Error("crash");
              return home.corpus.put(...args);
            },
          };
          await home
            .make(failing)
            .collect(never)
            .catch(() => undefined);
        }
      }
      // A new time of the file, as a later write has.
      await new Promise((resolve) => setTimeout(resolve, 6));
      await collector.collect(never);
      await collector.collect(never);
      expect(await contentOf(home.corpus)).toEqual(await freshRead(home));
      const there = [...(await home.corpus.sources()).values()].filter(({ deleted }) => !deleted);
      for (const { id, path } of there) expect(home.corpus.bytesOf(id)).toEqual(await wholeLines(path));
      const reader = await store.read();
      expect(await reader.sources()).toEqual(await home.corpus.sources());
      for (const source of (await home.corpus.sources()).values())
        expect(Buffer.concat([...reader.chunks(source.id, 0)])).toEqual(home.corpus.bytesOf(source.id));
      index.close();
    }),
    { numRuns },
  );
};

test("after any schedule of changes, crashes and looks the corpus equals a fresh full read", async () => {
  await afterAnySchedule(
    async (index) => ({ corpus: index, read: async () => index, lose: async () => {} }),
    15,
  );
});

test("so does a reader of a store that several share, and that may lose what it has", async () => {
  const { url } = await startRedis();
  await afterAnySchedule(async (index) => {
    const kv = await openKv(url);
    const notifier = createRedisNotifier({ kv, log: quiet });
    afterFile(() => notifier.close());
    await kv.ask((client) => client.flushall());
    const corpus = openSharedCorpus({ kv, notifier, locks: createLocalLocks(), index, log: quiet });
    const read = async () => {
      await corpus.catchUp(never);
      return index;
    };
    const lose = async () => {
      await read();
      await kv.ask((client) => client.flushall());
      await read();
    };
    return { corpus, read, lose };
  }, 8);
});

/** What of a file counts, by the plainest means. */
const wholeLines = async (path: string): Promise<Buffer> => {
  const content = await readFile(path);
  return path.endsWith(".md") ? content : content.subarray(0, content.lastIndexOf(10) + 1);
};

const change = async (home: string, one: Change) => {
  const path = join(home, names[one.file] ?? "");
  await mkdir(dirname(path), { recursive: true });
  if (one.do === "append") await appendFile(path, one.bytes);
  else if ("bytes" in one) {
    if (one.do === "truncate") return await writeFile(path, one.bytes);
    await writeFile(`${path}.new`, one.bytes);
    await rename(`${path}.new`, path);
  } else if (one.do === "delete") await rm(path, { force: true });
  else {
    const to = join(home, names[one.to] ?? "");
    await mkdir(dirname(to), { recursive: true });
    await rename(path, to).catch(() => undefined);
  }
};
