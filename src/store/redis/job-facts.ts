import { isFinal } from "../../contract/job.ts";
import type { IndexEntry } from "../job-entry.ts";

/** One entry of one index: the key's last parts, and the command with which it is put there or taken out. */
type Fact = { key: string; add: string[]; drop: string[] };

type Commands = { keys: string[]; commands: string };

/** Where a job stands in lists: text that sorts by creation, then id. */
export const position = ({ created, id }: { created: number; id: string }): string =>
  `${String(created).padStart(13, "0")}_${id}`;

export const idOf = (member: string): string => member.slice(member.indexOf("_") + 1);

/**
 * What the indexes must be told when a job comes (`before` null), changes, or goes (`after` null).
 * @param firstKey number of the first of `keys` among the keys of the script
 */
export const indexChanges = (
  before: IndexEntry | null,
  after: IndexEntry | null,
  firstKey: number,
): Commands => {
  const old = new Map(factsOf(before).map((fact) => [nameOf(fact), fact]));
  const present = new Map(factsOf(after).map((fact) => [nameOf(fact), fact]));
  const keys: string[] = [];
  const commands: unknown[][] = [];
  const give = (key: string, [name = "", ...args]: string[]): void => {
    if (!keys.includes(key)) keys.push(key);
    commands.push([name, firstKey + keys.indexOf(key), ...args]);
  };
  for (const [name, { key, drop }] of old) if (!present.has(name)) give(key, drop);
  for (const [name, { key, add }] of present)
    if (old.get(name)?.add.join("\n") !== add.join("\n")) give(key, add);
  return { keys, commands: JSON.stringify(commands) };
};

const nameOf = ({ key, drop }: Fact): string => `${key}\n${drop.join("\n")}`;

const factsOf = (entry: IndexEntry | null): Fact[] => {
  if (entry === null) return [];
  const { id, status, deadline, pod, worktree } = entry;
  const ended = entry.unsettled ? null : entry.ended;
  return [
    ranked("all", 0, position(entry)),
    ranked(`st:${status}`, 0, position(entry)),
    { key: "prefixes", add: ["SADD", id.slice(0, 8)], drop: ["SREM", id.slice(0, 8)] },
    when(status === "queued", () => dated("expiring", deadline, id)),
    when(isFinal(status) && !entry.unsettled, () => dated("removable", deadline, id)),
    when(entry.unsettled, () => field("unsettled", id, [entry.created, pod ?? "", entry.epoch ?? ""])),
    when(entry.worktreeStands, () => dated(`worktrees:${pod ?? ""}`, ended, id)),
    // The job that made it is found by its id.
    when(worktree !== null && worktree !== id, () =>
      field(`worktree:${worktree}`, id, [entry.created, status, entry.unsettled, entry.ended]),
    ),
    when(entry.session !== null, () => ranked(`session:${entry.session}`, 0, position(entry))),
    when(entry.idempotencyKey !== null, () => ({
      key: `idem:${entry.idempotencyKey}`,
      add: ["SET", id],
      drop: ["DEL"],
    })),
  ].flat();
};

const when = (holds: boolean, fact: () => Fact | []): Fact | [] => (holds ? fact() : []);

const ranked = (key: string, score: number, member: string): Fact => ({
  key,
  add: ["ZADD", String(score), member],
  drop: ["ZREM", member],
});

/** A time that is none would stop the script half way. */
const dated = (key: string, ms: number | null, member: string): Fact | [] =>
  ms !== null && Number.isFinite(ms) ? ranked(key, ms, member) : [];

const field = (key: string, name: string, value: unknown): Fact => ({
  key,
  add: ["HSET", name, JSON.stringify(value)],
  drop: ["HDEL", name],
});
