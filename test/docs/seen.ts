/**
 * A pattern for what a page says is seen, a line after the other. `…` stands for anything in a line, alone for any lines;
 * what differs from run to run (ids, times, ports, versions, the home directory) may be any other of its kind.
 */
export const patternOf = (seen: string, home: string): RegExp => {
  const lines = seen.trimEnd().split("\n");
  const patterns = lines.map((line) => (line === "…" ? "(?:.*\\n)*?" : `${patternOfLine(line, home)} *\\n`));
  return new RegExp(`^${patterns.join("")}`, "m");
};

const patternOfLine = (line: string, home: string): string =>
  varying.reduce(
    (pattern, [from, to]) => pattern.replaceAll(from, to),
    literally(line.replaceAll("/home/you", home)),
  );

const literally = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);

/** In text that is escaped already. */
const varying: [RegExp, string][] = [
  [/…/g, ".*"],
  [/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "[0-9a-f-]{36}"],
  [/\b(?=[a-f]*\d)[0-9a-f]{7,40}\b/g, "[0-9a-f]{7,40}"],
  [/\b\d+:\d\d\b/g, String.raw`\d+:\d\d`],
  [/(127\\\.0\\\.0\\\.1|localhost):\d+/g, String.raw`$1:\d+`],
  [/\b\d+\\\.\d+\\\.\d+\b(?!:|\\\.)/g, String.raw`\d+\.\d+\.\d+`],
];
