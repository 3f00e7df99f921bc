import { execFileSync } from "node:child_process";
import { mkdir, open, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { peakOf } from "../../test/peak-memory.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { contentOf, freshRead, never, openHome } from "./collector.fixture.ts";

test("every kind of file becomes a source of its kind", async () => {
  const { home, write, collect, corpus } = await openHome();
  await write("projects/-p/s1.jsonl", "{}\n{}\n");
  await write("projects/-p/s1/subagents/agent-a1.jsonl", "{}\n");
  await write("projects/-p/agent-old.jsonl", '{"x":1}\n{"sessionId":"s1"}\n');
  await write("projects/-p/memory/MEMORY.md", "no line feed");
  await write("projects/-p/notes.md", "no source");
  await write("plans/calm-river.md", "# Plan\n");
  await write("history.jsonl", "{}\n");
  await write("origins.jsonl", "{}\n");
  await write("codex/sessions/2026/01/02/rollout-1.jsonl", "{}\n");
  expect(await collect()).toMatchObject({
    files_scanned: 8,
    sessions_updated: 2,
    entries_added: 6,
    memory_files_indexed: 1,
    plans_indexed: 1,
    history_entries_added: 1,
  });
  const sources = [...(await corpus.sources()).values()].map(
    ({ kind, path, session_id, project_encoded }) =>
      `${kind} ${path.slice(home.length + 1)} ${session_id} ${project_encoded}`,
  );
  expect(sources.toSorted()).toEqual([
    "codex codex/sessions/2026/01/02/rollout-1.jsonl rollout-1 ",
    "history history.jsonl  ",
    "memory projects/-p/memory/MEMORY.md  -p",
    "origins origins.jsonl  ",
    "plan plans/calm-river.md  ",
    "session projects/-p/s1.jsonl s1 -p",
    "subagent projects/-p/agent-old.jsonl s1 -p",
    "subagent projects/-p/s1/subagents/agent-a1.jsonl s1 -p",
  ]);
  expect(await collect()).toMatchObject({ files_scanned: 8, sessions_updated: 0, entries_added: 0 });
});

test("what was collected of a deleted file stays, until retention forgets it", async () => {
  const { home, write, collect, source, corpus, make } = await openHome();
  await write("projects/-p/s.jsonl", "one\n");
  await write("projects/-p/t.jsonl", "one\n");
  await collect();
  await rm(join(home, "projects/-p/s.jsonl"));
  await collect();
  expect(await source("projects/-p/s.jsonl")).toMatchObject({ deleted: true, collected: 4 });
  const later = (days: number) => ({
    retentionDays: 7,
    now: () => new Date(Date.now() + days * 86_400_000),
  });
  await make(corpus, later(6)).collect(never);
  expect((await corpus.sources()).size).toBe(2);
  await make(corpus, later(8)).collect(never);
  expect([...(await corpus.sources()).values()].map(({ name }) => name)).toEqual(["t"]);
});

test("nothing counts as deleted in a home that is not there", async () => {
  const { home, write, collect, source } = await openHome();
  await write("projects/-p/s.jsonl", "one\n");
  await collect();
  await rename(home, `${home}-away`);
  await collect();
  expect(await source("projects/-p/s.jsonl")).toMatchObject({ deleted: false });
  await rename(`${home}-away`, home);
});

/** Places that a link may take. Its target is not there, or it is not followed. */
const linked = { away: ["", "projects", "projects/-p"], other: ["codex/sessions", "projects/-p/s.jsonl"] };

test.each([
  ...linked.away.flatMap((place) => [`${place}:away`, `${place}:away, then gone`]),
  ...linked.other.map((place) => `${place}:there`),
])("behind a link that is not read nothing counts as deleted, for retention too: %s", async (how) => {
  const [place = "", state = ""] = how.split(":");
  const { home, write, collect, corpus, make } = await openHome();
  await write("projects/-p/s.jsonl", "one\n");
  await write("codex/sessions/rollout-1.jsonl", "{}\n");
  const elsewhere = join(await temporaryDirectory(), "disk");
  await collect();
  await rename(join(home, place), elsewhere);
  await symlink(elsewhere, join(home, place));
  await collect();
  const stored = await corpus.sources();
  expect([...stored.values()].map(({ deleted }) => deleted)).toEqual([false, false]);
  if (state !== "there") await rename(elsewhere, `${elsewhere}-away`);
  const late = make(corpus, { retentionDays: 7, now: () => new Date(Date.now() + 8 * 86_400_000) });
  await late.collect(never);
  expect(await corpus.sources()).toEqual(stored);
  expect((await late.skipped()).map(({ path }) => path)).toEqual([join(home, place).replace(/\/$/, "")]);
  if (state === "there") return;
  if (state === "away") await rename(`${elsewhere}-away`, elsewhere);
  else await rm(join(home, place).replace(/\/$/, ""));
  await late.collect(never);
  const left = [...(await corpus.sources()).values()].filter(({ kind }) => kind === "session");
  // A home that is not there may be away, too.
  expect(left.map(({ deleted }) => deleted)).toEqual(state === "away" || place === "" ? [false] : []);
});

test("a moved file is a new source of the same session, and what moved away stays", async () => {
  const { home, write, append, collect, source, text, corpus } = await openHome();
  await write("projects/-p/s.jsonl", "one\n");
  await write("projects/-q/other.jsonl", "{}\n");
  await collect();
  await rename(join(home, "projects/-p/s.jsonl"), join(home, "projects/-q/s.jsonl"));
  await append("projects/-q/s.jsonl", "two\n");
  expect(await collect()).toMatchObject({ entries_added: 2 });
  expect(await source("projects/-p/s.jsonl")).toMatchObject({ session_id: "s", deleted: true });
  expect(await source("projects/-q/s.jsonl")).toMatchObject({ session_id: "s", deleted: false });
  await write("projects/-p/s.jsonl", "a new one\n");
  await collect();
  expect((await corpus.sources()).size).toBe(3);
  expect(await text("projects/-p/s.jsonl")).toBe("a new one\n");
  expect(await text("projects/-q/s.jsonl")).toBe("one\ntwo\n");
});

test("a link in the place of projects or of a project is followed, others and those of the service's agents are not", async () => {
  const outside = await temporaryDirectory();
  await writeFile(join(outside, "kept.jsonl"), "{}\n");
  const sources = async (links: (home: string) => Promise<unknown>) => {
    const { home, write, collect, corpus, warnings, make } = await openHome();
    await write("projects/-p/s.jsonl", "one\n");
    await links(home);
    for (let n = 0; n < 2; n += 1) await collect();
    const names = [...(await corpus.sources()).values()].map(({ name }) => name).toSorted();
    const skipped = (await make().skipped()).map(
      ({ path, reason }) => `${path.slice(home.length + 1)}: ${reason}`,
    );
    expect(warnings).toHaveLength(skipped.length);
    return { names, skipped };
  };
  const notFollowed = "it is a link, which is not followed";
  expect(
    await sources(async (home) => {
      await symlink(outside, join(home, "projects/-q"));
      await rename(join(home, "projects"), join(home, "synced"));
      await symlink(join(home, "synced"), join(home, "projects"));
    }),
  ).toEqual({ names: ["kept", "s"], skipped: [] });
  const deeper = await sources(async (home) => {
    await symlink(join(home, "projects/-p/s.jsonl"), join(home, "projects/-p/a.jsonl"));
    await symlink(join(home, "projects"), join(home, "projects/-p/loop"));
    await symlink(join(home, "nowhere"), join(home, "projects/-gone"));
    await mkdir(join(home, "codex"));
    await symlink(outside, join(home, "codex/sessions"));
  });
  expect(deeper.names).toEqual(["s"]);
  expect(deeper.skipped.toSorted()).toEqual([
    `codex/sessions: ${notFollowed}`,
    "projects/-gone: it cannot be read (a link that leads nowhere)",
    ...["projects/-p/a.jsonl", "projects/-p/loop"].map((path) => `${path}: ${notFollowed}`),
  ]);
  expect(
    await sources(async (home) => {
      await writeFile(join(home, "origins.jsonl"), "");
      await symlink(outside, join(home, "projects/-q"));
    }),
  ).toEqual({ names: ["origins", "s"], skipped: [`projects/-q: ${notFollowed}`] });
});

test("rollouts of Codex are read packed and archived; other packings are named", async () => {
  const { home, write, collect, corpus, source, text, make } = await openHome();
  const name = (n: number) => `rollout-2026-06-01T10-00-00-${n}`;
  const lines = Array.from({ length: 40_000 }, (_, n) => `{"line":${n},"${"x".repeat(60)}":1}\n`).join("");
  await write(
    `codex/sessions/2026/06/01/${name(1)}.jsonl.zst`,
    zstdCompressSync(Buffer.from(`${lines}{"last":1}`)),
  );
  await write(`codex/archived_sessions/${name(2)}.jsonl`, "two\n");
  const frames = ["three\n", "four\n"].map((frame) => zstdCompressSync(Buffer.from(frame)));
  await write(`codex/archived_sessions/2026/${name(3)}.jsonl.zst`, Buffer.concat(frames));
  await write(`codex/sessions/${name(4)}.jsonl.zst`, zstdCompressSync(Buffer.from(lines)).subarray(0, -9));
  await write(`codex/sessions/${name(5)}.jsonl.zst`, "no zstd");
  await write(`codex/sessions/${name(6)}.jsonl.gz`, "");
  await write("projects/-p/s.jsonl.gz", "");
  expect(await collect()).toMatchObject({ files_scanned: 5 });
  const path = `codex/sessions/2026/06/01/${name(1)}.jsonl.zst`;
  expect(await source(path)).toMatchObject({ kind: "codex", session_id: name(1), name: name(1) });
  expect(await text(path)).toBe(`${lines}{"last":1}\n`);
  expect(await text(`codex/archived_sessions/${name(2)}.jsonl`)).toBe("two\n");
  expect(await text(`codex/archived_sessions/2026/${name(3)}.jsonl.zst`)).toBe("three\nfour\n");
  // A line that is no record tells that something is torn.
  expect(await text(`codex/sessions/${name(5)}.jsonl.zst`)).toBe("{\n");
  const torn = await text(`codex/sessions/${name(4)}.jsonl.zst`);
  expect([torn.length > 1_000_000, lines.startsWith(torn.slice(0, -1)), torn === lines]).toEqual([
    true,
    true,
    false,
  ]);
  const before = await corpus.sources();
  await collect();
  expect(await corpus.sources()).toEqual(before);
  expect((await make().skipped()).map((each) => each.path.slice(home.length + 1)).toSorted()).toEqual([
    `codex/sessions/${name(6)}.jsonl.gz`,
    "projects/-p/s.jsonl.gz",
  ]);
});

test("the newest files are read first", async () => {
  const { home, write, corpus, make } = await openHome();
  for (const [name, hour] of [
    ["b", 2],
    ["a", 3],
    ["c", 1],
  ] as const) {
    await write(`projects/-p/${name}.jsonl`, "one\n");
    await utimes(join(home, `projects/-p/${name}.jsonl`), hour * 3600, hour * 3600);
  }
  const order: string[] = [];
  await make({
    ...corpus,
    put: async (source, chunk) => (order.push(source.name), corpus.put(source, chunk)),
  }).collect(never);
  expect(order).toEqual(["a", "b", "c"]);
});

test("a directory and a pipe with the name of a transcript do not keep the others", async () => {
  const { home, write, collect, text, warnings } = await openHome();
  await mkdir(join(home, "projects/-p/x.jsonl"), { recursive: true });
  await write("projects/-p/s.jsonl", "one\n");
  execFileSync("mkfifo", [join(home, "projects/-p/pipe.jsonl")]);
  await collect();
  expect(await text("projects/-p/s.jsonl")).toBe("one\n");
  expect(warnings).toEqual([]);
});

test("a file that vanishes after it was seen keeps nothing else from being collected", async () => {
  const { home, write, collect, source, text, corpus, warnings } = await openHome();
  for (const name of ["a", "b", "c"]) await write(`projects/-p/${name}.jsonl`, "one\n");
  const { sources } = corpus;
  corpus.sources = async () => {
    await rm(join(home, "projects/-p/b.jsonl"), { force: true });
    return sources();
  };
  expect(await collect()).toMatchObject({ files_scanned: 3, sessions_updated: 2 });
  expect(await text("projects/-p/c.jsonl")).toBe("one\n");
  expect([await source("projects/-p/b.jsonl"), warnings]).toEqual([undefined, []]);
});

test("a line of 100 MB is collected in bounded memory", async () => {
  const { home, write, collect, corpus } = await openHome();
  await write("projects/-p/s.jsonl", "one\n");
  const file = await open(join(home, "projects/-p/s.jsonl"), "a");
  const part = Buffer.alloc(1024 * 1024, "x");
  for (let n = 0; n < 100; n += 1) await file.write(part);
  await collect();
  await file.write("\nend\n");
  await file.close();
  const sizes: number[] = [];
  const put = corpus.put;
  corpus.put = async (source, chunk) => {
    sizes.push(chunk?.bytes.length ?? 0);
    return put(source).then(() => true);
  };
  const { grown } = await peakOf(collect());
  expect(sizes).toEqual([100 * 1024 * 1024 + 1, 4]);
  expect(grown).toBeLessThan(164);
});

test("two collectors on one corpus store every line once", async () => {
  const home = await openHome();
  const others = [home.make(), home.make()];
  await home.write("projects/-p/s.jsonl", "");
  for (let round = 0; round < 20; round += 1) {
    await home.append("projects/-p/s.jsonl", `line ${round}\n`);
    await Promise.all(others.map((one) => one.collect(never)));
  }
  await home.collect();
  expect(await contentOf(home.corpus)).toEqual(await freshRead(home));
});
