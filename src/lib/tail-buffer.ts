export const cutMarker = "[… cut …]\n";

export type TailBuffer = {
  push: (chunk: Buffer | string) => void;
  /** All bytes ever pushed. */
  total: () => number;
  /** The last `maxBytes` as text, with the marker in front when something is missing: never more than `maxBytes`. */
  text: () => string;
};

/** Keeps the last `maxBytes` of a stream in a ring of that size. */
export const createTailBuffer = (maxBytes: number): TailBuffer => {
  const ring = Buffer.alloc(maxBytes);
  let total = 0;

  /** Without a copy of its own where the text fits in up to the ring's end. */
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
    const kept = bytes.subarray(Math.max(0, bytes.length - maxBytes));
    const at = maxBytes === 0 ? 0 : (total + bytes.length - kept.length) % maxBytes;
    const before = kept.copy(ring, at);
    kept.copy(ring, 0, before);
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
 * The end of a text in at most `maxBytes` of UTF-8. Cut at a character's boundary, with the marker in front; `cut` says
 * that the front is missing already. Where not even the marker fits the result is the bare end.
 */
export const cutFront = (text: string, maxBytes: number, cut = false): string => {
  const bytes = Buffer.from(text);
  const marker = Buffer.byteLength(cutMarker) <= maxBytes ? cutMarker : "";
  if (!cut && bytes.length <= maxBytes) return text;
  const room = maxBytes - Buffer.byteLength(marker);
  return marker + decodeTail(bytes.subarray(Math.max(0, bytes.length - room)));
};

/** Decodes from the first byte that begins a character. */
const decodeTail = (bytes: Buffer): string => {
  let from = 0;
  while (from < 3 && from < bytes.length && ((bytes[from] ?? 0) & 0xc0) === 0x80) from += 1;
  return bytes.toString("utf8", from);
};
