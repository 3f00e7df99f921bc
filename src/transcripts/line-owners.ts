import { hash } from "node:crypto";
import type { SourceKind } from "./corpus.ts";
import { entriesPerSource } from "./index-schema.ts";
import type { Sql } from "./sqlite-file.ts";
import type { Line } from "./transcript-line.ts";

/** 48 bits tell ids apart, and are numbers that SQLite and JavaScript both have. */
export const digestOf = (id: string): number => hash("sha256", id, "buffer").readUIntBE(0, 6);

/** Whether a line says that it is another session's: not, by that session's id, or as the copy of a line of it. */
export type Claim = 0 | 1 | 2;

export const claimOf = ({ session, copyOf }: Line, owner: string): Claim =>
  copyOf !== "" ? 2 : session !== "" && session !== owner ? 1 : 0;

/** The digest by which a line is known in all files; null: it has no id. */
export const lineOf = ({ uuid, copyOf }: Line): number | null => {
  const id = copyOf || uuid;
  return id === "" ? null : digestOf(id);
};

/** An entry with what decides whether it counts. */
export type Twin = {
  id: number;
  at: number | null;
  claim: Claim;
  inherited: number;
  begin: number;
  length: number;
  source: number;
  session: string;
  kind: SourceKind;
  name: string;
  /** Unix time, ms. */
  created: number;
  modified: number;
};

const columns = `entries.id, at, claim, inherited, begin, length, sources.number AS source, session_id AS session, kind, name,
  coalesce(record ->> '$.created', 0) AS created, record ->> '$.modified' AS modified
  FROM entries JOIN sources ON sources.number = entries.id / ${entriesPerSource}`;

export const twinAt = (sql: Sql, id: number): Twin | undefined =>
  sql.first<Twin>(`SELECT ${columns} WHERE entries.id = ?`, id);

/**
 * The other entries that are the same line: of one session by uuid, of others by uuid and time, or because one says that it
 * copies the other. Another file of this name and session is a copy as a whole: one of both counts.
 */
export const twinsOf = (sql: Sql, line: number | null, own: Omit<Twin, "id">): Twin[] =>
  line === null
    ? []
    : sql
        .all<Twin>(`SELECT ${columns} WHERE line = ?`, line)
        .filter((twin) =>
          twin.session === own.session
            ? twin.source === own.source || twin.name !== own.name
            : twin.at === own.at || twin.claim === 2 || own.claim === 2,
        );

/**
 * Whether a line counts in `a` rather than in `b`.
 *
 * | both in | it counts in |
 * | --- | --- |
 * | one session | the session's own file, else the subagent's whose file comes first by name |
 * | two sessions | the one that does not say it is another's, else whose file was made first, else was changed first |
 */
export const precedes = (a: Omit<Twin, "id">, b: Omit<Twin, "id">): boolean => {
  const order =
    a.session === b.session
      ? Number(a.kind === "subagent") - Number(b.kind === "subagent") || (a.name < b.name ? -1 : 1)
      : Number(a.claim > 0) - Number(b.claim > 0) ||
        a.created - b.created ||
        a.modified - b.modified ||
        (a.session < b.session ? -1 : 1);
  return order < 0;
};
