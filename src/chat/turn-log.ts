/**
 * The server-sent events of one turn, in memory, for readers that come and go. Readers hold only their offset; the caller
 * bounds what is appended.
 */
export const createTurnLog = () => {
  const events: string[] = [];
  let grown = Promise.withResolvers<void>();
  let hasEnded = false;
  let isWaking = false;
  /** After the events that came with this one: readers get them in one piece. */
  const wake = (): void => {
    if (isWaking) return;
    isWaking = true;
    process.nextTick(() => {
      isWaking = false;
      grown.resolve();
      grown = Promise.withResolvers();
    });
  };

  return {
    /** Appends whole events. Never waits; ignored after the end. */
    append: (text: string): void => {
      if (hasEnded || text === "") return;
      events.push(text);
      wake();
    },
    end: (): void => {
      hasEnded = true;
      wake();
    },
    /**
     * All events from the first one on, then live, until the end or the abort, neither of which is an error, in pieces of
     * whole events: several events together have at most 65,536 characters. A read that began calls `left` at its end.
     */
    read: async function* (signal: AbortSignal, left?: () => void): AsyncGenerator<Uint8Array, void, void> {
      let at = 0;
      signal.addEventListener("abort", wake);
      try {
        while (!signal.aborted) {
          const piece = pieceFrom(events, at);
          at += piece.length;
          if (piece.length > 0) yield Buffer.from(piece.join(""));
          else if (hasEnded) return;
          else await grown.promise;
        }
      } finally {
        signal.removeEventListener("abort", wake);
        left?.();
      }
    },
  };
};

export type TurnLog = ReturnType<typeof createTurnLog>;

const pieceChars = 65_536;

const pieceFrom = (events: readonly string[], from: number): string[] => {
  let to = from;
  for (let size = 0; to < events.length; to += 1) {
    size += events[to]?.length ?? 0;
    if (size > pieceChars && to > from) break;
  }
  return events.slice(from, to);
};
