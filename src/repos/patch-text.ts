import type { ChangedFile } from "../contract/diff.ts";

/** A changed file, and its part of the patch. */
type Part = { file: ChangedFile; text: string; bytes: number };

const border = "\ndiff --git ";

/**
 * Takes a patch apart into files as git prints it, and keeps the smallest that have at most so many bytes together: a large
 * file hides no small one. `files`: those of the patch, in its order; those that do not fit are marked.
 */
export const createPatchReader = (files: readonly ChangedFile[], maxBytes: number) => {
  let parts: Part[] = [];
  let [stored, tail, nth, left] = [0, "", -1, 0];

  const take = (text: string): void => {
    const part = parts.at(-1);
    if (part === undefined) return;
    part.bytes += text.length;
    const isTooLarge = part.bytes > maxBytes;
    stored += isTooLarge ? -part.text.length : text.length;
    part.text = isTooLarge ? "" : part.text + text;
  };

  const next = (): void => {
    // A file that becomes a link, or the other way round, has two parts.
    if (left > 0) return void (left -= 1);
    if (stored > 2 * maxBytes) drop();
    const file = files[(nth += 1)];
    if (file === undefined) return;
    left = file.status === "type_changed" ? 1 : 0;
    parts.push({ file, text: "", bytes: 0 });
  };

  /** Marks the largest, and forgets their texts. */
  const drop = (): void => {
    const smallestFirst = parts.toSorted((one, other) => one.bytes - other.bytes);
    let bytes = 0;
    for (const part of smallestFirst) if ((bytes += part.bytes) > maxBytes) part.file.left_out = true;
    parts = parts.filter(({ file }) => !file.left_out);
    stored = parts.reduce((sum, { text }) => sum + text.length, 0);
  };

  return {
    read: (piece: string): void => {
      tail = nth === -1 && tail === "" ? `\n${piece}` : tail + piece;
      for (let at = tail.indexOf(border); at !== -1; at = tail.indexOf(border)) {
        take(tail.slice(0, at + 1));
        next();
        tail = tail.slice(at + 1);
        // The border itself must not be found again.
        take(tail.slice(0, 1));
        tail = tail.slice(1);
      }
      const end = Math.max(0, tail.length - border.length);
      take(tail.slice(0, end));
      tail = tail.slice(end);
    },
    /** What fits, in the order of the files. */
    end: (): string => {
      take(tail);
      drop();
      return parts.map(({ text }) => text).join("");
    },
  };
};
