import type { ChangedFile } from "../contract/diff.ts";

const border = "\ndiff --git ";

/**
 * Takes a patch apart into files as git prints it, and keeps the smallest that have at most so many bytes together: a large
 * file hides no small one. `files`: those of the patch, in its order; those that do not fit are marked.
 */
export const createPatchReader = (files: readonly ChangedFile[], maxBytes: number) => {
  let parts: { file: ChangedFile; text: string; bytes: number }[] = [];
  let [tail, stored, next, more] = ["\n", 0, 0, 0];

  const take = (text: string): void => {
    const part = parts.at(-1);
    if (part === undefined) return;
    part.bytes += text.length;
    stored += text.length;
    part.text = part.bytes > maxBytes ? "" : part.text + text;
  };

  const begin = (): void => {
    if (stored > 2 * maxBytes) drop();
    const file = files[next];
    // A file that becomes a link, or the other way round, has two parts.
    if (more > 0 || file === undefined) return void (more = 0);
    parts.push({ file, text: "", bytes: 0 });
    more = file.status === "type_changed" ? 1 : 0;
    next += 1;
  };

  /** Marks the largest and forgets their texts. */
  const drop = (): void => {
    stored = 0;
    for (const part of parts.toSorted((one, other) => one.bytes - other.bytes))
      if (stored + part.bytes > maxBytes) part.file.left_out = true;
      else stored += part.bytes;
    parts = parts.filter(({ file }) => !file.left_out);
  };

  return {
    read: (piece: string): void => {
      const [before = "", ...begun] = `${tail}${piece}`.split(border);
      take(before.slice(0, begun.length > 0 ? undefined : -border.length));
      for (const [nth, text] of begun.entries()) {
        take("\n");
        begin();
        const isLast = nth === begun.length - 1;
        take(`${border.slice(1)}${isLast ? text.slice(0, -border.length) : text}`);
      }
      tail = (begun.at(-1) ?? before).slice(-border.length);
    },
    /** What fits, in the order of the files. */
    end: (): string => {
      take(tail);
      drop();
      return parts.map(({ text }) => text).join("");
    },
  };
};
