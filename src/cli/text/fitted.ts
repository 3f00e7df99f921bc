/** The help for a terminal of so many columns, broken anew between words; commands with a backslash, to be copied. */
export const fitted = (help: string, columns: number): string => {
  if (help.split("\n").every((line) => line.length <= columns)) return help;
  const lines = help.replaceAll(/(?<=^\S.*)\n(?=\S)/gm, " ").replaceAll(/(?<=^ {2}\d.*)\n {7}/gm, " ");
  return lines
    .split("\n")
    .flatMap((line) => fit(line, columns))
    .join("\n");
};

const fit = (line: string, columns: number): string[] => {
  if (line.length <= columns) return [line];
  const [row] = /^ +\S+ {2,}/.exec(line) ?? [];
  const isCommand = row === undefined && line.startsWith("  ");
  const indent = row ?? /^ */.exec(line)?.[0] ?? "";
  const [margin, end] = isCommand ? ["    ", " \\"] : [" ".repeat(indent.length), ""];
  const [first = "", ...words] = line.slice(indent.length).match(isCommand ? quotedWords : /\S+/g) ?? [];
  const lines = [indent + first];
  for (const word of words) {
    const last = lines.at(-1) ?? "";
    if (`${last} ${word}${end}`.length <= columns) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(margin + word);
  }
  return lines.map((each, at) => (at < lines.length - 1 ? each + end : each));
};

const quotedWords = /#.*|(?:"[^"]*"|'[^']*'|[^\s"'])+/g;
