export const cutMarker = "[… cut …]\n";

export type TailBuffer = {
  push: (chunk: Buffer | string) => void;
  /** All bytes ever pushed. */
  total: () => number;
  /** The last bytes as text, at most `maxBytes`, with the marker in front when something is missing. */
  text: () => string;
};

/** Holds the last `maxBytes` of a stream in a ring buffer. */
export const createTailBuffer = (maxBytes: number): TailBuffer => {
  const ring = Buffer.alloc(maxBytes);
  let total = 0;

  /** Writes the text without a copy. False: it does not fit before the end of the ring. */
  const write = (text: string): boolean => {
    const at = maxBytes === 0 ? 0 : total % maxBytes;
    const length = Buffer.byteLength(text);
    if (length > maxBytes - at) return false;
    ring.write(text, at);
    total += length;
    return true;
  };

  const push = (chunk: Buffer | string): void => {
    if (typeof chunk === "string" && write(chunk)) return;
    const bytes = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
    const last = bytes.subarray(Math.max(0, bytes.length - maxBytes));
    const at = maxBytes === 0 ? 0 : (total + bytes.length - last.length) % maxBytes;
    const before = last.copy(ring, at);
    last.copy(ring, 0, before);
    total += bytes.length;
  };

  const text = (): string => {
    if (total <= maxBytes) return cutFront(ring.toString("utf8", 0, total), maxBytes);
    const at = total % maxBytes;
    return cutFront(decodeTail(Buffer.concat([ring.subarray(at), ring.subarray(0, at)])), maxBytes, true);
  };

  return { push, total: () => total, text };
};

/**
 * The end of a text in at most `maxBytes` of UTF-8, cut between characters, with the marker in front if it fits. `cut`: the
 * front is missing already.
 */
export const cutFront = (text: string, maxBytes: number, cut = false): string => {
  const bytes = Buffer.from(text);
  const marker = Buffer.byteLength(cutMarker) <= maxBytes ? cutMarker : "";
  if (!cut && bytes.length <= maxBytes) return text;
  const room = maxBytes - Buffer.byteLength(marker);
  return marker + decodeTail(bytes.subarray(Math.max(0, bytes.length - room)));
};

/** Decodes from the first complete character. */
const decodeTail = (bytes: Buffer): string => {
  let from = 0;
  while (from < 3 && from < bytes.length && ((bytes[from] ?? 0) & 0xc0) === 0x80) from += 1;
  return bytes.toString("utf8", from);
};
