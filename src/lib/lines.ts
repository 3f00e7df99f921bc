export type LineSplitterOptions = {
  /** Without the newline; a last line without one is given at `end`. */
  onLine: (line: string) => void;
  /** A line longer than the limit was dropped; `bytes` is its length. */
  onOversized: (bytes: number) => void;
  /** Limit in bytes, 16 MiB by default. */
  maxBytes?: number;
};

export type LineSplitter = { push: (chunk: Buffer) => void; end: () => void };

/**
 * Turns bytes into lines, wherever they are split. Characters are decoded a line at a time, so that one cut in two by a
 * chunk's end is whole again. Holds at most one line.
 */
export const createLineSplitter = ({
  onLine,
  onOversized,
  maxBytes = 16 * 1024 * 1024,
}: LineSplitterOptions): LineSplitter => {
  let pending = none;
  let held = 0;
  let dropped = 0;

  const hold = (piece: Buffer): void => {
    if (dropped > 0 || held + piece.length > maxBytes) {
      dropped += held + piece.length;
      held = 0;
      return;
    }
    if (held + piece.length > pending.length) {
      const larger = Buffer.allocUnsafe(Math.max(leastCapacity, pending.length * 2, held + piece.length));
      pending.copy(larger, 0, 0, held);
      pending = larger;
    }
    held += piece.copy(pending, held);
  };

  const finishHeld = (): void => {
    if (dropped > 0) onOversized(dropped);
    else onLine(pending.toString("utf8", 0, held));
    held = 0;
    dropped = 0;
    // One large line must not keep its memory for the rest of the stream: there may be hundreds of streams.
    if (pending.length > mostKept) pending = none;
  };

  const whole = (line: Buffer): void => {
    if (line.length > maxBytes) onOversized(line.length);
    else onLine(line.toString("utf8"));
  };

  return {
    push: (chunk) => {
      let from = 0;
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
        const piece = chunk.subarray(from, at);
        from = at + 1;
        if (held === 0 && dropped === 0) {
          whole(piece);
        } else {
          hold(piece);
          finishHeld();
        }
      }
      if (from < chunk.length) hold(chunk.subarray(from));
    },
    end: () => {
      if (held > 0 || dropped > 0) finishHeld();
    },
  };
};

const newline = 10;
const none = Buffer.alloc(0);
const leastCapacity = 4096;
const mostKept = 64 * 1024;
