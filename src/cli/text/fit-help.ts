/**
 * Help, written for 80 columns, on a narrower terminal: paragraphs and the second column of lists are wrapped anew. Without
 * the libraries that measure text: each start would pay for them.
 */
export const fitHelp = (text: string, columns = 80): string => {
  if (columns >= 80) return text;
  const rows: { hang: number; line: string }[] = [];
  for (const line of text.split("\n")) {
    const indent = /^ */.exec(line)?.[0].length ?? 0;
    const hang = /^ +\S.*?\S? {2,}(?=\S)/.exec(line)?.[0].length ?? indent;
    const last = rows.at(-1);
    const continues = last !== undefined && line !== "" && indent === last.hang && hang === indent;
    if (continues && last.line !== "" && !/^ *(svc|bridge|git) |:$/.test(last.line))
      last.line += ` ${line.trim()}`;
    else rows.push({ hang, line });
  }
  return rows
    .map(({ hang, line }) => {
      const room = new RegExp(`(.{1,${Math.max(20, columns - hang)}})(?: +|$)`, "g");
      return (
        line.slice(0, hang) +
        line
          .slice(hang)
          .replace(room, `$1\n${" ".repeat(hang)}`)
          .trimEnd()
      );
    })
    .join("\n");
};
