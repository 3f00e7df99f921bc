import { randomUUID } from "node:crypto";
import { isFinal, jobStatuses } from "../../contract/job.ts";
import { failureOf } from "../../kv/failure.ts";
import type { Kv } from "../../kv/kv.ts";
import type { Log } from "../../lib/log.ts";
import { toEntry } from "../job-entry.ts";
import type { JobRecord } from "../job-record.ts";
import { isJobId, parseRecord } from "../stored-job.ts";
import { idOf, indexChanges } from "./job-facts.ts";
import { changeJob, createJob, foreign } from "./job-scripts.ts";
import type { Script } from "./script.ts";
import { createRowCache, type Row } from "./row-cache.ts";

type Dependencies = { kv: Kv; log: Log };

/** How long an output is kept past the time its record may be deleted, and one that a record no longer points to, s. */
const outputGrace = 86_400;
const replacedOutputGrace = 60;

/** Longest output that is kept in the record itself, as JSON; characters. */
const shortOutput = 1024;

/** The lists of which each job is in the first, and in one of the others. */
const lists = ["all", ...jobStatuses.map((status) => `st:${status}`)];

/** How many jobs are put into the indexes at once that are made anew. */
const atOnce = 500;

/** How many records that cannot be read are remembered as warned of. */
const mostWarned = 1000;

/**
 * The stored jobs one by one: a hash with the record, a revision that is new with each write, and, of an output that is
 * not short, the key, which lies in a slot of its own and is written before a record points to it.
 */
export const openJobRows = ({ kv, log }: Dependencies) => {
  const cache = createRowCache();
  const warned = new Set<string>();
  const healing = new Map<string, Promise<void>>();
  const origin = randomUUID();
  let written = 0;

  const keyOf = (id: string): string => kv.jobKey("job", id);
  const keysOf = (parts: string[]): string[] => parts.map((part) => kv.jobKey(part));

  /** Never one that was used before, also when the store has lost its last writes: a counter would be. */
  const newRevision = (): string => `${origin}-${(written += 1)}`;

  const read = async (id: string): Promise<Row | null> => {
    if (!isJobId(id)) return null;
    const fields = await kv
      .ask((client) => client.hmget(keyOf(id), "json", "rev", "output"))
      .catch(emptyIfForeign);
    if (fields.length === 0) {
      await unlist(id);
      return skip(id, "its key holds another type of value");
    }
    const [json = null, rev = null, outputKey = null] = fields;
    const known = cache.get(id);
    if (known !== undefined && known.rev === rev) return known;
    cache.forget(id);
    if (json === null && rev === null) return null;
    if (json === null || rev === null) return skip(id, "it is not whole");
    return await rowOf(id, json, rev, outputKey ?? "");
  };

  /** Nothing is left of the job: no list shows it any more, and no sweep finds it for ever. */
  const unlist = async (id: string): Promise<void> => {
    cache.forget(id);
    const unrank = async (list: string): Promise<void> => {
      const [, found] = await kv.ask((client) =>
        client.zscan(list, "0", "MATCH", `*_${id}`, "COUNT", "1000000000"),
      );
      if (found[0] !== undefined) await kv.ask((client) => client.zrem(list, found[0] ?? ""));
    };
    await Promise.allSettled([
      ...keysOf(lists).map(unrank),
      ...keysOf(["expiring", "removable"]).map((key) => kv.ask((client) => client.zrem(key, id))),
      kv.ask((client) => client.hdel(kv.jobKey("unsettled"), id)),
    ]);
  };

  const rebuild = async (key: string): Promise<void> => {
    log.warn({ key }, "a key of the index of jobs held another type of value; it is made anew from the jobs");
    await kv.ask((client) => client.del(key));
    const members = await Promise.all(
      keysOf(lists).map((list) => kv.ask((client) => client.zrange(list, "0", "-1")).catch(emptyIfForeign)),
    );
    const ids = [...new Set(members.flat().map(idOf))];
    while (ids.length > 0) await Promise.all(ids.splice(0, atOnce).map(enlist));
  };

  /** Makes an index anew from the records, which somebody has overwritten with another type of value. */
  const heal = (key: string): Promise<void> => {
    const healed = healing.get(key) ?? rebuild(key).finally(() => healing.delete(key));
    healing.set(key, healed);
    return healed;
  };

  const enlist = async (id: string): Promise<void> => {
    for (let row = await read(id); row !== null; row = await read(id))
      if (await replace(row, row.record, { listed: false })) return;
  };

  const run = async (script: Script, keys: string[], args: string[]): Promise<unknown> => {
    const answer = await kv.ask((client) => script(client, keys, args));
    if (typeof answer !== "string" || !answer.startsWith(foreign)) return answer;
    await heal(answer.slice(foreign.length));
    return await run(script, keys, args);
  };

  const rowOf = async (id: string, json: string, rev: string, outputKey: string): Promise<Row | null> => {
    const record = parseRecord(json, id);
    if (typeof record === "string") return skip(id, record);
    const output = outputKey === "" ? record.output : await readOutput(outputKey);
    return remember({ record: { ...record, output }, rev, outputKey, size: json.length });
  };

  const readOutput = async (key: string): Promise<string | null> => {
    const text = await kv.ask((client) => client.get(key));
    return text === null ? null : (JSON.parse(text) as string);
  };

  const remember = (row: Row): Row => {
    const { record } = row;
    // What is over is hardly written again.
    if (isFinal(record.status) && !record.unsettled) cache.forget(record.id);
    else cache.put({ ...row, size: row.size + (record.output?.length ?? 0) });
    return row;
  };

  const skip = (id: string, why: string): null => {
    if (!warned.has(id) && warned.size < mostWarned) {
      warned.add(id);
      log.warn({ job: id }, `stored job skipped: ${why}`);
    }
    return null;
  };

  /** Stores the output of `next`, unless it is that of `before`, or short. */
  const storeOutput = async (next: JobRecord, before: Row | null, rev: string): Promise<string> => {
    if (next.output === null || isShort(next.output)) return "";
    if (before !== null && before.outputKey !== "" && next.output === before.record.output)
      return before.outputKey;
    const key = kv.key("out", next.id, rev);
    const text = JSON.stringify(next.output);
    await kv.ask((client) => client.set(key, text, "EX", next.ttl_seconds + outputGrace));
    return key;
  };

  const forgetOutput = (key: string, seconds: number): void => {
    // It is gone after its own time at the latest.
    if (key !== "") kv.ask((client) => client.expire(key, seconds)).catch(() => undefined);
  };

  const textOf = (record: JobRecord): string =>
    JSON.stringify(record.output === null || isShort(record.output) ? record : { ...record, output: null });

  /**
   * Writes `next` over `row`, or deletes it (null); false: somebody else has changed or deleted it since. `listed`: that what
   * the indexes say of `row` is known to be there.
   */
  const replace = async (
    row: Row,
    next: JobRecord | null,
    { listed = true }: { listed?: boolean } = {},
  ): Promise<boolean> => {
    const { id } = row.record;
    // Whatever comes of it, the row is no more known to be true.
    cache.forget(id);
    const rev = newRevision();
    const outputKey = next === null ? "" : await storeOutput(next, row, rev);
    const json = next === null ? "" : textOf(next);
    const { keys, commands } = indexChanges(listed ? toEntry(row.record) : null, next && toEntry(next), 2);
    const args = [row.rev, rev, json, outputKey, commands];
    if ((await run(changeJob, [keyOf(id), ...keysOf(keys)], args)) !== 1) return false;
    if (next !== null) remember({ record: next, rev, outputKey, size: json.length });
    // Who has read the record before still asks for its output.
    if (row.outputKey !== outputKey) forgetOutput(row.outputKey, next === null ? 0 : replacedOutputGrace);
    return true;
  };

  return {
    read,
    heal,

    /** The job as this instance knows it, which may be out of date. */
    known: cache.get,

    /** `created`, `full`, `prefix`, or the id of the job that has the idempotency key, unless that is `ignored`. */
    create: async (record: JobRecord, maxQueued: number, ignored: string): Promise<string> => {
      const rev = newRevision();
      const outputKey = await storeOutput(record, null, rev);
      const json = textOf(record);
      const { keys, commands } = indexChanges(null, toEntry(record), 5);
      const idempotency = record.idempotency === null ? "idem" : `idem:${record.idempotency.key}`;
      const all = [keyOf(record.id), ...keysOf([idempotency, "prefixes", "st:queued", ...keys])];
      const most = String(Math.min(maxQueued, Number.MAX_SAFE_INTEGER));
      const args = [ignored, most, record.id.slice(0, 8), rev, json, outputKey, commands];
      const answer = String(await run(createJob, all, args));
      if (answer === "created") remember({ record, rev, outputKey, size: json.length });
      return answer;
    },

    replace,
  };
};

const emptyIfForeign = (error: unknown): [] => {
  if (failureOf(error) !== "value") throw error;
  return [];
};

/** Most are: they need no key, and no command, of their own. */
const isShort = (output: string): boolean =>
  output.length <= shortOutput && JSON.stringify(output).length <= shortOutput;

export type JobRows = ReturnType<typeof openJobRows>;
