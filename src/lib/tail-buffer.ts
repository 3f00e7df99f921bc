export const cutMarker = "[… cut …]\n";

/** Holds the last `maxBytes` of a stream. */
export const createTailBuffer = (maxBytes: number) => {
  const buffer = Buffer.allocUnsafe(2 * maxBytes);
  let used = 0;
  let total = 0;

  return {
    push: (chunk: Buffer | string): void => {
      const bytes = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
      const last = bytes.subarray(Math.max(0, bytes.length - maxBytes));
      if (used + last.length > buffer.length) {
        const kept = Math.min(used, maxBytes);
        buffer.copyWithin(0, used - kept, used);
        used = kept;
      }
      used += last.copy(buffer, used);
      total += bytes.length;
    },
    /** Drops what it holds. */
    clear: (): void => {
      used = 0;
      total = 0;
    },
    /** All bytes ever pushed. */
    total: (): number => total,
    /** The last bytes as text, at most `maxBytes`, with the marker in front when something is missing. */
    text: (): string => {
      const tail = buffer.subarray(Math.max(0, used - maxBytes), used);
      return cutFront(decodeTail(tail), maxBytes, total > maxBytes);
    },
  };
};

/** The end of a text in at most `maxBytes` of UTF-8, with the marker in front if it fits. `cut`: its front is missing. */
export const cutFront = (text: string, maxBytes: number, cut = false): string => {
  const bytes = Buffer.from(text);
  const marker = Buffer.byteLength(cutMarker) <= maxBytes ? cutMarker : "";
  if (!cut && bytes.length <= maxBytes) return text;
  const room = maxBytes - Buffer.byteLength(marker);
  return marker + decodeTail(bytes.subarray(Math.max(0, bytes.length - room)));
};

/** The beginning of a text in at most `maxBytes` of UTF-8, with `…` at its end if something is missing. */
export const cutEnd = (text: string, maxBytes: number): string => {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  const [mark, decoder] = ["…", new TextDecoder()];
  return decoder.decode(bytes.subarray(0, maxBytes - Buffer.byteLength(mark)), { stream: true }) + mark;
};

/** Decodes from the first complete character. */
const decodeTail = (bytes: Buffer): string => {
  let from = 0;
  while (from < 3 && from < bytes.length && ((bytes[from] ?? 0) & 0xc0) === 0x80) from += 1;
  return bytes.toString("utf8", from);
};
