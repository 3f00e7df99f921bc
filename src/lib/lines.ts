type Options = {
  /** Without the newline; `end` gives a last line that has none. */
  onLine: (line: string) => void;
  /** A line longer than the limit was dropped; `bytes` is its length. */
  onOversized: (bytes: number) => void;
  /** Limit in bytes, 16 MiB by default. */
  maxBytes?: number;
};

/** Turns chunks of bytes into lines. Decodes whole lines: a character may span two chunks. Holds at most one line. */
export const createLineSplitter = ({ onLine, onOversized, maxBytes = 16 * 1024 * 1024 }: Options) => {
  /** The line so far; nothing of it is held once it is too long. */
  let pieces: Buffer[] = [];
  let length = 0;

  const add = (piece: Buffer): void => {
    length += piece.length;
    if (length > maxBytes) pieces = [];
    else pieces.push(piece);
  };
  const finish = (): void => {
    const [only = empty] = pieces;
    if (length > maxBytes) onOversized(length);
    else onLine((pieces.length > 1 ? Buffer.concat(pieces) : only).toString());
    pieces = [];
    length = 0;
  };

  return {
    /** False: the line so far is longer than the limit. */
    push: (chunk: Buffer): boolean => {
      let from = 0;
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
        add(chunk.subarray(from, at));
        finish();
        from = at + 1;
      }
      if (from < chunk.length) add(chunk.subarray(from));
      return length <= maxBytes;
    },
    end: (): void => {
      if (length > 0) finish();
    },
  };
};

const newline = 10;
const empty = Buffer.alloc(0);
