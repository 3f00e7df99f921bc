import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createSql } from "./sqlite-file.ts";
import { append, lines, newSource, quiet, userLine } from "./transcript-index.fixture.ts";
import { openTranscriptIndex } from "./transcript-index.ts";

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

test("a full file changes nothing, and takes more when there is room", async () => {
  const { sql } = await newFile();
  sql.run("CREATE TABLE t (text)");
  const insert = () =>
    sql.transaction(() => {
      sql.run("INSERT INTO t VALUES ('first')");
      sql.run("INSERT INTO t VALUES (?)", "x".repeat(100_000));
    });
  sql.all("PRAGMA max_page_count = 10");
  expect(insert).toThrow(expect.objectContaining(unavailable("cannot grow: make room on its disk")));
  expect(sql.all("SELECT COUNT(*) AS count FROM t")).toEqual([{ count: 0 }]);
  sql.all("PRAGMA max_page_count = 1000");
  insert();
  expect(sql.all("SELECT COUNT(*) AS count FROM t")).toEqual([{ count: 2 }]);
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

test("a file that was replaced by what cannot be opened is unavailable until that is gone", async () => {
  const { path, sql } = await newFile();
  sql.run("CREATE TABLE t (n)");
  await rm(path);
  await mkdir(path);
  sql.renew();
  expect(() => sql.all("SELECT * FROM t")).toThrow(
    expect.objectContaining(unavailable("cannot be used: give this user the right")),
  );
  await rm(path, { recursive: true });
  sql.run("CREATE TABLE t (n)");
});
