import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createSql } from "./sqlite-file.ts";
import { append, lines, newSource, quiet, userLine } from "./transcript-index.fixture.ts";
import { openTranscriptIndex } from "./transcript-index.ts";
import { openVectors } from "./vectors.ts";

const unavailable = (how: string) => ({
  code: "store_unavailable",
  message: expect.stringMatching(`^/.*t\\.db ${how}.* \\(.+\\)$`),
});

const newFile = async () => {
  const path = join(await temporaryDirectory(), "t.db");
  const open = () => new DatabaseSync(path, { timeout: 0 });
  const sql = createSql(path, open);
  const other = open();
  afterFile(() => (other.close(), sql.close()));
  return { path, sql, other };
};

test("a file that another process has locked is unavailable, and works when it is free", async () => {
  const { sql, other } = await newFile();
  sql.run("CREATE TABLE t (n)");
  other.exec("BEGIN IMMEDIATE");
  expect(() => sql.transaction(() => sql.run("INSERT INTO t VALUES (1)"))).toThrow(
    expect.objectContaining(unavailable("is locked by another process: try again")),
  );
  other.exec("COMMIT");
  sql.transaction(() => sql.run("INSERT INTO t VALUES (1)"));
  expect(sql.all("SELECT n FROM t")).toEqual([{ n: 1 }]);
});

test("damage inside what is stored is told; a fault of the program stays one", async () => {
  const { path, sql, other } = await newFile();
  const index = openTranscriptIndex({ path, log: quiet });
  afterFile(() => index.close());
  await append(index, newSource("session", "/h/projects/p/s.jsonl"), lines(userLine("Hi")));
  other.exec("UPDATE chunks SET bytes = x'00'");
  const read = () => index.entries("s", { offset: 0, limit: 1, since: null, until: null });
  expect(read).toThrow(expect.objectContaining(unavailable("is damaged: move it away")));
  expect(() => sql.all("SELEKT")).toThrow(expect.objectContaining({ code: "ERR_SQLITE_ERROR" }));
});

test("a file of vectors from before gives its disk back, while another process has it open", async () => {
  const path = join(await temporaryDirectory(), "vectors.db");
  const other = new DatabaseSync(path);
  other.exec("PRAGMA journal_mode = WAL");
  other.exec(
    "CREATE TABLE embeddings (session_id TEXT PRIMARY KEY, model TEXT NOT NULL, revision TEXT NOT NULL, passages TEXT NOT NULL, vectors BLOB NOT NULL)",
  );
  for (let n = 0; n < 20; n += 1)
    other.exec(`INSERT INTO embeddings VALUES ('s${n}', 'm', '', '[]', zeroblob(200000))`);
  const vectors = openVectors(path);
  afterFile(() => (vectors.close(), other.close()));
  const pages = () => Number(other.prepare("PRAGMA page_count").get()?.["page_count"]);
  const before = pages();
  vectors.retain(Array.from({ length: 10 }, (_, n) => `s${n}`));
  const half = pages();
  vectors.retain(["s1"]);
  expect([half < before * 0.6, pages() < before * 0.2]).toEqual([true, true]);
  expect([...vectors.all("m")].map(({ session_id }) => session_id)).toEqual(["s1"]);
});
