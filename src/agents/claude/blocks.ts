import { createHash, type Hash } from "node:crypto";
import type { AgentEvent } from "../../contract/event.ts";

type Kind = "text" | "thinking";

/** A block so far. Stores its length and digest only: an endless one takes no memory. */
type Block = {
  number: number;
  kind: Kind;
  index: number;
  length: number;
  digest: Hash;
  /** The tail that is not in the digest yet: hashing a word takes as long as a page. */
  undigested: string;
  open: boolean;
};

/**
 * Emits each piece of text and thinking once, although the CLI sends it twice: as deltas, and whole. After a broken
 * stream the whole may be longer than the deltas, or another text.
 */
export const createBlocks = () => {
  let numbered = 0;
  /** Blocks of the current message whose whole text has not come yet, in order. */
  let unconfirmed: Block[] = [];

  const add = (index: number, kind: Kind): Block => {
    numbered += 1;
    const block = { number: numbered, kind, index, length: 0, digest: digest(), undigested: "", open: true };
    unconfirmed.push(block);
    return block;
  };
  const piece = (block: Block, text: string): AgentEvent[] => {
    if (text === "") return [];
    block.length += text.length;
    block.undigested += text;
    if (block.undigested.length > page) {
      block.digest.update(block.undigested, "utf16le");
      block.undigested = "";
    }
    return [{ type: block.kind, block: block.number, text }];
  };
  const close = (block: Block): AgentEvent[] => {
    if (!block.open) return [];
    block.open = false;
    return block.length === 0 ? [] : [{ type: "block_end", block: block.number }];
  };
  const openAt = (index: number): Block | undefined =>
    unconfirmed.find((block) => block.open && block.index === index);

  const drop = (block: Block): AgentEvent[] => [
    ...close(block),
    { type: "warning", message: brokenStream, dropped_block: block.number },
  ];
  const finish = (how: (block: Block) => AgentEvent[]): AgentEvent[] => {
    const events = unconfirmed.flatMap(how);
    unconfirmed = [];
    return events;
  };

  return {
    /**
     * Begins a new message: drops blocks whose whole text never came. It comes before the next message, unless the stream
     * broke; a newer CLI then ends the block all the same.
     */
    begin: (): AgentEvent[] => finish((block) => (block.length > 0 ? drop(block) : close(block))),
    /** Ends the turn: closes blocks that were never finished. */
    end: (): AgentEvent[] => finish(close),
    start: (index: number, kind: Kind): AgentEvent[] => {
      const stale = openAt(index);
      const events = stale === undefined ? [] : close(stale);
      add(index, kind);
      return events;
    },
    delta: (index: number, kind: Kind, text: string): AgentEvent[] =>
      piece(openAt(index) ?? add(index, kind), text),
    stop: (index: number): AgentEvent[] => {
      const block = openAt(index);
      return block === undefined ? [] : close(block);
    },
    /** The CLI sends the whole block, after (or among, or without) its deltas. */
    whole: (kind: Kind, text: string): AgentEvent[] => {
      const block = unconfirmed.find((candidate) => candidate.kind === kind);
      const events: AgentEvent[] = [];
      if (block !== undefined) {
        unconfirmed.splice(unconfirmed.indexOf(block), 1);
        if (beginsWithSent(text, block) && (block.open || text.length === block.length)) {
          events.push(...piece(block, text.slice(block.length)), ...close(block));
          return events;
        }
        events.push(...drop(block));
      }
      if (text === "") return events;
      const again = add(-1, kind);
      events.push(...piece(again, text), ...close(again));
      unconfirmed.splice(unconfirmed.indexOf(again), 1);
      return events;
    },
  };
};

export type Blocks = ReturnType<typeof createBlocks>;

const brokenStream =
  "The model's answer broke off and was asked for again: the piece of text before this one is a dropped first try.";

const digest = (): Hash => createHash("sha1");

const page = 4096;

const beginsWithSent = (whole: string, { length, digest: sent, undigested }: Block): boolean =>
  whole.length >= length &&
  digest().update(whole.slice(0, length), "utf16le").digest("hex") ===
    sent.copy().update(undigested, "utf16le").digest("hex");
