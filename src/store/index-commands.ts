import type { Claim, Index, IndexEntry, Position } from "./records.ts";

/** A place in one index or a claim: the last part of its key, and the commands that put it there and take it out. */
type Fact = { key: string; add: string[]; drop: string[] };

/** Where a record stands in an index by creation: text that sorts by that, then id. */
export const memberOf = ({ created, id }: Position): string => `${String(created).padStart(13, "0")}_${id}`;

export const positionOf = (member: string): Position => ({
  created: Number.parseInt(member, 10),
  id: member.slice(member.indexOf("_") + 1),
});

/** Of an index by creation the members are positions, of all others ids. */
export const idIn = ({ order }: Index, member: string): string =>
  order === "creation" ? positionOf(member).id : member;

export const factOf = (id: string, { index, at, value }: IndexEntry): Fact => {
  const { name, order } = index;
  if (order === "none") return { key: name, add: ["HSET", id, JSON.stringify(value)], drop: ["HDEL", id] };
  const [score, member] = order === "time" ? [at, id] : [0, memberOf({ created: at, id })];
  return { key: name, add: ["ZADD", String(score), member], drop: ["ZREM", member] };
};

export const claimFact = (id: string, { name, value, holder }: Claim): Fact =>
  holder
    ? { key: `${name}:${value}`, add: ["SET", id], drop: ["DEL"] }
    : { key: name, add: ["SADD", value], drop: ["SREM", value] };

/** A command on an index: the last part of its key, then the command and its arguments without the key. */
export type IndexCommand = { key: string; command: string[] };

/** The commands that take out what must go, and put in what must come. What stays where it is and changes is only put in. */
export const difference = (before: readonly Fact[], after: readonly Fact[]) => {
  const [old, present] = [before, after].map((facts) => new Map(facts.map((fact) => [nameOf(fact), fact])));
  return {
    gone: before
      .filter((fact) => present?.has(nameOf(fact)) !== true)
      .map(({ key, drop }): IndexCommand => ({ key, command: drop })),
    come: after
      .filter((fact) => old?.get(nameOf(fact))?.add.join("\n") !== fact.add.join("\n"))
      .map(({ key, add }): IndexCommand => ({ key, command: add })),
  };
};

const nameOf = ({ key, drop }: Fact): string => `${key}\n${drop.join("\n")}`;
