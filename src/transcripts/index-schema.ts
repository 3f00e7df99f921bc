import type { DatabaseSync } from "node:sqlite";
import { openFile } from "./sqlite-file.ts";

/** Another number also when masks change: what is masked when it is shown cannot be found by its letters. */
const version = 7;

/** The file of the index. @throws Error when it cannot be opened or another version made it */
export const openDatabase = (path: string): DatabaseSync => {
  const database = openFile(path);
  database.exec("PRAGMA cache_size = -32768");
  const found = Number(database.prepare("PRAGMA user_version").get()?.["user_version"]);
  if (found !== 0 && found !== version) {
    database.close();
    throw new Error(
      `${path} has format ${found}, and this version reads ${version}: use the version that made it, or remove the file; then the transcripts are read again`,
    );
  }
  if (found === 0) create(database);
  return database;
};

/** Ids of entries begin with the number of their source: what belongs to a source is one range. */
export const entriesPerSource = 2 ** 28;

/** The ids of a source's entries. */
export const rangeOf = (number: number): [number, number] => [
  number * entriesPerSource,
  (number + 1) * entriesPerSource - 1,
];

const create = (database: DatabaseSync): void => {
  database.exec("BEGIN IMMEDIATE");
  // Another process may have been faster.
  if (Number(database.prepare("PRAGMA user_version").get()?.["user_version"]) === 0) database.exec(schema);
  database.exec("COMMIT");
};

const schema = `
-- "record": what the collector stores. "counted": it is searched, and no copy of it. "created": the oldest copy.
CREATE TABLE sources (
  number INTEGER PRIMARY KEY, record TEXT NOT NULL, facts TEXT NOT NULL,
  counted INTEGER NOT NULL DEFAULT 0, created REAL,
  id TEXT AS (record ->> '$.id') STORED UNIQUE, kind TEXT AS (record ->> '$.kind') STORED,
  session_id TEXT AS (record ->> '$.session_id') STORED, name TEXT AS (record ->> '$.name') STORED,
  modified REAL AS (record ->> '$.modified')
);
CREATE INDEX sources_of_session ON sources (session_id) WHERE session_id <> '';
CREATE INDEX sources_of_kind ON sources (kind, name);

-- Compressed bytes of a source, by the place where they begin.
CREATE TABLE chunks (
  number INTEGER PRIMARY KEY, source INTEGER NOT NULL, begin INTEGER NOT NULL, length INTEGER NOT NULL,
  bytes BLOB NOT NULL, UNIQUE (source, begin)
);

-- Id: source, position, type. "begin" and "length": the record in the source. "line": a digest of its uuid. "claim": whether
-- it says that it is another session's. "inherited": the line counts elsewhere. "prompt": the beginning of what a person
-- typed. "answer": a digest of the id of the answer whose last line it is, "tokens" and "cost" of all of it.
CREATE TABLE entries (
  id INTEGER PRIMARY KEY, at INTEGER, shown INTEGER NOT NULL, begin INTEGER NOT NULL, length INTEGER NOT NULL,
  line INTEGER, claim INTEGER NOT NULL, inherited INTEGER NOT NULL,
  prompt TEXT, calls INTEGER NOT NULL, answer INTEGER, turn INTEGER NOT NULL, tokens REAL NOT NULL, cost REAL
);
CREATE INDEX entries_by_line ON entries (line) WHERE line IS NOT NULL;
CREATE INDEX entries_by_answer ON entries (answer) WHERE answer IS NOT NULL;
CREATE INDEX own_prompts ON entries (id) WHERE prompt IS NOT NULL AND inherited = 0;
CREATE INDEX inherited_entries ON entries (id) WHERE inherited = 1;
-- With secrets masked.
CREATE VIRTUAL TABLE texts USING fts5(text, content = '', contentless_delete = 1);
-- Fewer and larger segments are written; measured by bench/transcripts.ts.
INSERT INTO texts (texts, rank) VALUES ('hashsize', 8388608), ('automerge', 8);

-- "session_id": the session that has a line whose uuid has the digest "leaf", else the one "named"; null: not known yet.
CREATE TABLE titles (
  source INTEGER NOT NULL, session_id TEXT, named TEXT, leaf INTEGER, kind TEXT NOT NULL, text TEXT NOT NULL
);
CREATE INDEX titles_of_source ON titles (source);
CREATE INDEX titles_of_session ON titles (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX titles_by_leaf ON titles (leaf) WHERE leaf IS NOT NULL;

-- Derived from the sources of the session; "source" is the one whose entries are shown. "project" of a job's session is
-- the job's repository. "session" is what lists have of it, "meta" what its own answer has besides.
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, source INTEGER NOT NULL, kind TEXT NOT NULL, job_id TEXT, project TEXT NOT NULL,
  updated INTEGER NOT NULL, turns INTEGER NOT NULL, session TEXT NOT NULL, meta TEXT NOT NULL
);
CREATE INDEX sessions_by_time ON sessions (updated);

CREATE TABLE origins (
  source INTEGER NOT NULL, session_id TEXT NOT NULL, kind TEXT NOT NULL, job_id TEXT, at INTEGER NOT NULL,
  project TEXT NOT NULL
);
CREATE INDEX origins_of_session ON origins (session_id, at);
CREATE INDEX origins_of_source ON origins (source);

CREATE TABLE slugs (slug TEXT NOT NULL, source INTEGER NOT NULL, PRIMARY KEY (slug, source)) WITHOUT ROWID;
CREATE INDEX slugs_of_source ON slugs (source);

CREATE TABLE prompts (
  source INTEGER NOT NULL, at INTEGER, project TEXT NOT NULL, session_id TEXT NOT NULL, display TEXT NOT NULL,
  searched TEXT NOT NULL
);
CREATE INDEX prompts_by_time ON prompts (at);
CREATE INDEX prompts_of_source ON prompts (source);

-- Up to where a shared corpus has been stored here.
CREATE TABLE position (number INTEGER PRIMARY KEY, epoch TEXT NOT NULL, id TEXT NOT NULL);

PRAGMA user_version = ${version};
`;
