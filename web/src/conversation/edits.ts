type EditLine = { sign: "+" | "-" | " "; text: string };

/** A change of a file as a tool call asks for it. */
export type Edit = {
  path: string;
  lines: EditLine[];
  /** Lines that are not shown. */
  left: number;
};

/** More of one call belongs to the change of the whole job. */
const mostLines = 60;

const context = 2;

/** The edit that a call of a tool asks for; null: it asks for none. */
export const editOf = (input: unknown): Edit | null => {
  const path = textAt(input, "file_path") ?? textAt(input, "notebook_path");
  if (path === null) return null;
  const edits = valueAt(input, "edits");
  const parts: unknown[] = Array.isArray(edits) ? edits : [input];
  const lines = parts.flatMap((part) => {
    const after = textAt(part, "new_string") ?? textAt(part, "content") ?? textAt(part, "new_source");
    return after === null ? [] : between(textAt(part, "old_string") ?? "", after);
  });
  return lines.length === 0
    ? null
    : { path, lines: lines.slice(0, mostLines), left: Math.max(0, lines.length - mostLines) };
};

/** What differs between the first lines that differ and the last, with a little around it. */
const between = (before: string, after: string): EditLine[] => {
  const [old, fresh] = [linesOf(before), linesOf(after)];
  const least = Math.min(old.length, fresh.length);
  let head = 0;
  while (head < least && old[head] === fresh[head]) head += 1;
  let tail = 0;
  while (tail < least - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail += 1;
  const signed = (sign: EditLine["sign"], lines: string[]) => lines.map((text): EditLine => ({ sign, text }));
  return [
    ...signed(" ", old.slice(Math.max(0, head - context), head)),
    ...signed("-", old.slice(head, old.length - tail)),
    ...signed("+", fresh.slice(head, fresh.length - tail)),
    ...signed(" ", old.slice(old.length - tail, old.length - tail + context)),
  ];
};

const linesOf = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

const valueAt = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined;

export const textAt = (value: unknown, key: string): string | null => {
  const found = valueAt(value, key);
  return typeof found === "string" ? found : null;
};
