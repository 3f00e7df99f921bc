import { createBell } from "../../lib/bell.ts";
import { busLimits, isBehind, type BusEvent, type EventBus } from "../event-bus.ts";
import { createPendingBusEvents, gathering } from "../pending-bus-events.ts";

type Entry = { position: string; event: BusEvent };

type Stream = {
  entries: Entry[];
  /** How many have been dropped in front of them. */
  dropped: number;
  size: number;
  pending: ReturnType<typeof createPendingBusEvents>;
  timer: NodeJS.Timeout | null;
  /** When `done` came, ms since the epoch. */
  ended: number | null;
};

type Options = {
  now: () => Date;
  /** Characters of all streams together, past which the oldest that have ended go. */
  most?: number;
  gatherMs?: number;
};

/** The events of this process's completions, in memory. */
export const createLocalEventBus = ({
  now,
  most = 64 * 1024 * 1024,
  gatherMs = gathering,
}: Options): EventBus => {
  /** In the order in which they began. */
  const streams = new Map<string, Stream>();
  const bell = createBell();
  const nextPosition = createPositions(now);
  let size = 0;

  const forget = (id: string): void => {
    const stream = streams.get(id);
    if (stream === undefined) return;
    clearTimeout(stream.timer ?? undefined);
    size -= stream.size;
    streams.delete(id);
    bell.ring(id);
  };

  const forgetEnded = (): void => {
    const limit = now().getTime() - busLimits.secondsAfterDone * 1000;
    for (const [id, { ended }] of streams) if (ended !== null && ended <= limit) forget(id);
  };

  const dropFirst = (stream: Stream): void => {
    const length = stream.entries.shift()?.event.content.length ?? 0;
    stream.dropped += 1;
    stream.size -= length;
    size -= length;
  };

  const makeRoom = (): void => {
    for (const [id, { ended }] of streams) {
      if (size <= most) return;
      if (ended !== null) forget(id);
    }
    for (const stream of streams.values()) while (size > most && stream.entries.length > 1) dropFirst(stream);
  };

  const flush = (id: string, stream: Stream): void => {
    clearTimeout(stream.timer ?? undefined);
    stream.timer = null;
    for (const event of stream.pending.take()) {
      stream.entries.push({ position: nextPosition(), event });
      stream.size += event.content.length;
      size += event.content.length;
      if (event.event_type === "done") stream.ended = now().getTime();
    }
    while (stream.entries.length > busLimits.entries) dropFirst(stream);
    makeRoom();
    bell.ring(id);
  };

  const begin = (id: string): Stream => {
    forget(id);
    forgetEnded();
    const stream = {
      entries: [],
      dropped: 0,
      size: 0,
      pending: createPendingBusEvents(),
      timer: null,
      ended: null,
    };
    streams.set(id, stream);
    return stream;
  };

  return {
    begin: async (id) => void begin(id),

    publish: (event) => {
      const id = event.correlation_id;
      const stream = streams.get(id) ?? begin(id);
      stream.pending.add(event);
      if (event.event_type === "done") flush(id, stream);
      else stream.timer ??= setTimeout(() => flush(id, stream), gatherMs);
    },

    read: async function* (id, after, signal) {
      forgetEnded();
      let stream = streams.get(id);
      let next = stream === undefined ? 0 : stream.dropped + countUpTo(stream.entries, after);
      while (stream !== undefined && !signal.aborted) {
        const change = bell.next(id, signal);
        next = Math.max(next, stream.dropped);
        const entry = stream.entries[next - stream.dropped];
        if (entry === undefined && stream.ended !== null) return;
        if (entry === undefined) await change;
        else yield entry;
        if (entry?.event.event_type === "done") return;
        if (entry !== undefined) next += 1;
        // Begun anew: its events are others.
        if (streams.get(id) !== stream) next = 0;
        stream = streams.get(id);
      }
    },

    close: async () => {
      for (const [id, stream] of streams) flush(id, stream);
    },
  };
};

/** As a stream of the key-value store numbers its entries: later ones are greater, also after a restart. */
const createPositions = (now: () => Date) => {
  let ms = 0;
  let number = 0;
  return (): string => {
    const time = Math.max(ms, now().getTime());
    number = time === ms ? number + 1 : 0;
    ms = time;
    return `${ms}-${number}`;
  };
};

/** How many of them a reader at that position has seen. */
const countUpTo = (entries: readonly Entry[], after: string | null): number =>
  after === null ? 0 : entries.findLastIndex(({ position }) => !isBehind(position, after)) + 1;
