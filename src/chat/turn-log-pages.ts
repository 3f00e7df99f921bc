/** The bytes `[start, end)` of a growing sequence, in buffers that are only added to: parts of them can be handed out. */
export type Pages = {
  start: () => number;
  end: () => number;
  bytes: () => number;
  append: (text: string) => void;
  /** At most `limit` bytes from `offset` on, from one page; null when they are not here. */
  at: (offset: number, limit: number) => Uint8Array | null;
  /** The oldest pages, so many that at most `keep` bytes would be left. */
  oldest: (keep: number) => { parts: Uint8Array[]; bytes: number };
  /** Forgets the first pages. */
  drop: (count: number) => void;
  /** Forgets the oldest, so that at most `keep` bytes are left; but never the newest page. */
  cut: (keep: number) => void;
};

type Page = { start: number; used: number; buffer: Buffer };

/** What is appended at once is never spread over two pages: what does not fit in one of `size` bytes gets its own. */
export const createPages = (size: number): Pages => {
  let pages: Page[] = [];
  let start = 0;
  let end = 0;

  const add = (bytes: number): Page => {
    const page = { start: end, used: 0, buffer: Buffer.allocUnsafeSlow(bytes) };
    pages.push(page);
    return page;
  };
  const drop = (count: number): void => {
    pages = pages.slice(count);
    start = pages[0]?.start ?? end;
  };
  /** How many of the oldest to take so that at most `keep` bytes are left. */
  const countOver = (keep: number): number => {
    const first = pages.findIndex((page) => end - page.start <= keep);
    return first === -1 ? pages.length : first;
  };

  return {
    start: () => start,
    end: () => end,
    bytes: () => end - start,
    append: (text) => {
      const bytes = Buffer.byteLength(text);
      const last = pages.at(-1);
      const fits = last !== undefined && last.buffer.length - last.used >= bytes;
      const page = fits ? last : add(Math.max(size, bytes));
      page.buffer.write(text, page.used);
      page.used += bytes;
      end += bytes;
    },
    at: (offset, limit) => {
      const page = pages.findLast((candidate) => candidate.start <= offset);
      if (page === undefined) return null;
      const from = offset - page.start;
      const part = page.buffer.subarray(from, Math.min(page.used, from + limit));
      // A reader that holds a part must not keep all of a large page.
      if (page.buffer.length > size && part.length < page.used) return Buffer.from(part);
      return part;
    },
    oldest: (keep) => {
      const taken = pages.slice(0, countOver(keep));
      const parts = taken.map(({ buffer, used }) => buffer.subarray(0, used));
      return { parts, bytes: parts.reduce((sum, part) => sum + part.length, 0) };
    },
    drop,
    cut: (keep) => drop(Math.min(countOver(keep), pages.length - 1)),
  };
};
