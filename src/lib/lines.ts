export type LineSplitterOptions = {
  /** Without the newline; `end` gives a last line that has none. */
  onLine: (line: string) => void;
  /** A line longer than the limit was dropped; `bytes` is its length. */
  onOversized: (bytes: number) => void;
  /** Limit in bytes, 16 MiB by default. */
  maxBytes?: number;
};

export type LineSplitter = { push: (chunk: Buffer) => void; end: () => void };

/**
 * Turns chunks of bytes into lines. Decodes whole lines, so that a character may span two chunks. Holds at most one line.
 */
export const createLineSplitter = ({
  onLine,
  onOversized,
  maxBytes = 16 * 1024 * 1024,
}: LineSplitterOptions): LineSplitter => {
  let pending = empty;
  let length = 0;
  let dropped = 0;

  const append = (piece: Buffer): void => {
    if (dropped > 0 || length + piece.length > maxBytes) {
      dropped += length + piece.length;
      length = 0;
      return;
    }
    if (length + piece.length > pending.length) {
      const larger = Buffer.allocUnsafe(Math.max(minCapacity, pending.length * 2, length + piece.length));
      pending.copy(larger, 0, 0, length);
      pending = larger;
    }
    length += piece.copy(pending, length);
  };

  const finishLine = (): void => {
    if (dropped > 0) onOversized(dropped);
    else onLine(pending.toString("utf8", 0, length));
    length = 0;
    dropped = 0;
    // A large buffer is released: there may be hundreds of streams.
    if (pending.length > maxRetained) pending = empty;
  };

  const onWholeLine = (line: Buffer): void => {
    if (line.length > maxBytes) onOversized(line.length);
    else onLine(line.toString("utf8"));
  };

  return {
    push: (chunk) => {
      let from = 0;
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
        const piece = chunk.subarray(from, at);
        from = at + 1;
        if (length === 0 && dropped === 0) {
          onWholeLine(piece);
        } else {
          append(piece);
          finishLine();
        }
      }
      if (from < chunk.length) append(chunk.subarray(from));
    },
    end: () => {
      if (length > 0 || dropped > 0) finishLine();
    },
  };
};

const newline = 10;
const empty = Buffer.alloc(0);
const minCapacity = 4096;
const maxRetained = 64 * 1024;
