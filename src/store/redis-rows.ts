import { randomUUID } from "node:crypto";
import { failureOf } from "../kv/failure.ts";
import type { Kv } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { claimFact, difference, factOf, type IndexCommand } from "./index-commands.ts";
import { changeRecord, dropUpTo } from "./record-script.ts";
import type { Index, IndexEntry, Kind } from "./records.ts";

/** A record as it was read: `version` tells whether it still is so; `apart`: key of its long field, empty: it has none. */
export type Row<T> = { record: T | null; version: string; apart: string };

/** What is stored of a record: its text, its version, and the key of its long field. */
type Stored = { version: string; json: string; key: string };

export const noRow = { record: null, version: "", apart: "" };

/** Longest text that is kept in the record itself, as JSON; characters. */
const short = 1024;

/** How long a text kept apart stays that its record no longer points to, s: who has read the record before still asks for it. */
const replacedGrace = 60;

/** What a new record is asked for: `[what, last part of the key, argument]`. */
export type Condition = [what: string, index: string, argument: string];

type Write<T> = {
  id: string;
  row: Row<T>;
  next: T | null;
  conditions?: Condition[];
};

/** The stored texts of records: a string or a hash each, or a field of one hash; a long field of theirs in a key of its own. */
export const createRedisRows = <T extends object>({ kv, kind, log }: { kv: Kv; kind: Kind<T>; log: Log }) => {
  const { layout, version: versionField = "", oneSlot, apart } = kind.redis;
  const warnings = createWarnOnce();
  const isTable = layout === "table";
  const keyed = oneSlot ? kv.jobKey : kv.key;
  const keyOf = (id: string): string => keyed(...kind.redis.key(id));
  const origin = randomUUID();
  let written = 0;

  /** Never one that was used before, also when the store has lost its last writes: a counter would be. */
  const newVersion = (): string => `${origin}-${(written += 1)}`;

  const skip = (id: string, why: string): null => {
    warnings.once(id, () => log.warn({ [kind.noun]: id }, `stored ${kind.noun} skipped: ${why}`));
    return null;
  };

  const parse = (id: string, text: string): T | null => {
    const record = kind.parse(text, id);
    if (typeof record === "string") return skip(id, record);
    warnings.isWell(id);
    return record;
  };

  /** Version, record and key of the long field. */
  const readFields = async (id: string): Promise<(string | null)[]> => {
    if (layout === "hash")
      return await kv.ask((client) => client.hmget(keyOf(id), versionField, "json", apart?.field ?? ""));
    const text = await kv.ask((client) => (isTable ? client.hget(keyOf(id), id) : client.get(keyOf(id))));
    return [text, text, null];
  };

  const read = async (id: string): Promise<Row<T>> => {
    if (!kind.isId(id)) return noRow;
    const fields = await readFields(id).catch(nullIfForeign);
    if (fields === null) return { ...noRow, record: skip(id, "its key holds another type of value") };
    const [version = null, text = null, apartKey = null] = fields;
    if (version === null && text === null) return noRow;
    if (version === null || text === null)
      return { ...noRow, record: skip(id, "it is not whole"), version: version ?? "" };
    const row = { record: parse(id, text), version, apart: "" };
    return row.record === null || !apartKey ? row : await readApart(row, row.record, apartKey);
  };

  const readApart = async (row: Row<T>, record: T, key: string): Promise<Row<T>> => {
    if (apart === undefined) return row;
    const text = await kv.ask((client) => client.get(key));
    const value = text === null ? null : (JSON.parse(text) as unknown);
    return { ...row, record: { ...record, [apart.field]: value }, apart: key };
  };

  /** Stores the long field of `record`, unless it is that of `before`, or short. Resolves to the text of the record, and the key. */
  const storeApart = async (id: string, record: T, before: Row<T>, version: string) => {
    const value = apart === undefined ? null : record[apart.field];
    const text = typeof value === "string" ? JSON.stringify(value) : "";
    if (apart === undefined || text.length <= short) return { json: JSON.stringify(record), key: "" };
    const json = JSON.stringify({ ...record, [apart.field]: null });
    if (before.apart !== "" && value === before.record?.[apart.field]) return { json, key: before.apart };
    const key = kv.key(apart.key, id, version);
    await kv.ask((client) => client.set(key, text, "EX", apart.seconds(record)));
    return { json, key };
  };

  const forgetApart = (key: string, seconds: number): void => {
    // It is gone after its own time at the latest.
    if (key !== "") kv.ask((client) => client.expire(key, seconds)).catch(() => undefined);
  };

  const entriesOf = (record: T | null, id: string): IndexEntry[] =>
    record === null ? [] : kind.entries(record, id).filter(({ at }) => Number.isFinite(at));

  const factsOf = (record: T | null, id: string) => [
    ...entriesOf(record, id).map((entry) => factOf(id, entry)),
    ...(record === null ? [] : (kind.claims?.(record) ?? []).map((claim) => claimFact(id, claim))),
  ];

  /** Keys and arguments of the script. */
  const scriptOf = (
    { id, row, next, conditions = [] }: Write<T>,
    stored: Stored,
    changes: IndexCommand[],
  ) => {
    const keys = [keyOf(id)];
    const numberOf = (name: string): number => {
      if (!keys.includes(keyed(name))) keys.push(keyed(name));
      return keys.indexOf(keyed(name)) + 1;
    };
    const commands = changes.map(({ key: name, command: [command, ...rest] }) => [
      command,
      numberOf(name),
      ...rest,
    ]);
    const asked = conditions.map(([what, name, ...rest]) => [what, numberOf(name), ...rest]);
    const args = [
      layout,
      isTable ? id : versionField,
      row.version,
      layout === "hash" ? stored.version : stored.json || stored.version,
      String(next === null ? 0 : (kind.redis.seconds?.(next) ?? 0)),
      JSON.stringify(commands),
      JSON.stringify(asked),
      ...(next === null ? [] : writtenOf(id, stored)),
    ];
    return { keys, args };
  };

  const writtenOf = (id: string, { version, json, key }: Stored): string[] => {
    if (layout === "string") return [json];
    if (isTable) return [id, json];
    return [versionField, version, "json", json, ...(apart === undefined ? [] : [apart.field, key])];
  };

  /** Answers as the script does. */
  const write = async (request: Write<T>): Promise<string> => {
    const { id, row, next } = request;
    const version = newVersion();
    const stored =
      next === null
        ? { version, json: "", key: "" }
        : { version, ...(await storeApart(id, next, row, version)) };
    const { come, gone } = difference(factsOf(row.record, id), factsOf(next, id));
    for (const each of oneSlot ? [] : come) await tell(each);
    const { keys, args } = scriptOf(request, stored, oneSlot ? [...gone, ...come] : []);
    const answer = String(await kv.ask((client) => changeRecord(client, keys, args)));
    if (answer !== "done") return answer;
    if (row.apart !== stored.key) forgetApart(row.apart, next === null ? 0 : replacedGrace);
    if (!oneSlot) await dropEntries(id, row.record, next);
    return answer;
  };

  const tell = async ({ key: name, command: [command = "", ...rest] }: IndexCommand): Promise<void> => {
    await kv.ask((client) => client.call(command, keyed(name), ...rest));
  };

  /** The record is written: what remains in an index is found out by whoever reads it. */
  const dropEntries = async (id: string, before: T | null, after: T | null): Promise<void> => {
    const stays = new Set(entriesOf(after, id).map(({ index }) => index.name));
    const gone = entriesOf(before, id).filter(({ index }) => !stays.has(index.name));
    await Promise.allSettled(gone.map(({ index, at }) => drop(index, id, at)));
  };

  /** Unless somebody has given it a later time meanwhile. */
  const drop = async ({ name }: Index, id: string, upTo: number): Promise<void> => {
    await kv.ask((client) => dropUpTo(client, [keyed(name)], [id, String(upTo)]));
  };

  return { keyed, keyOf, parse, read, entriesOf, write, drop };
};

const nullIfForeign = (error: unknown): null => {
  if (failureOf(error) !== "value") throw error;
  return null;
};
