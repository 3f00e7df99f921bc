/** A text of a user's line: the person's part, and that of editors and the CLI in the person's name. */
export type Typed = {
  /** The person's own words; empty: there are none. */
  words: string;
  /** Written by programs, for people to see or search. Reminders are for the model only. */
  markup: string;
  /** The CLI continues another session by such a text. */
  isSummary?: true;
};

const leading = /^\s*<(ide_[a-z_]+|system-reminder)>[^]*?<\/\1>\s*/;
const trailing = /\s*<(ide_[a-z_]+|system-reminder)>(?:(?!<\/?\1>)[^])*<\/\1>\s*$/;

const markup =
  /^\s*(?:<(?:command-|local-command-|bash-|ide_|system-reminder|task-notification|teammate-message)|\[Request interrupted|Caveat: The messages below)/;

const continuation = /^\s*This session is being continued from a previous conversation/;

export const typedIn = (text: string): Typed => {
  const command = commandIn(text);
  if (command !== "") return { words: command, markup: "" };
  if (continuation.test(text)) return { words: "", markup: text, isSummary: true };
  let words = text;
  const context: string[] = [];
  for (const edge of text.includes("</") ? [leading, trailing] : [])
    for (let found = edge.exec(words); found !== null; found = edge.exec(words)) {
      if (found[1] !== "system-reminder") context.push(found[0].trim());
      words = words.replace(found[0], "");
    }
  const isMarkup = words.trim() === "" || markup.test(words);
  return {
    words: isMarkup ? "" : words,
    markup: [...context, ...(isMarkup && words.trim() !== "" ? [words] : [])].join("\n"),
  };
};

/** A slash command as it was typed: `/review the parser`. */
const commandIn = (text: string): string => {
  if (!/^\s*<command-(?:name|message)>/.test(text)) return "";
  const name = /<command-name>\s*\/?([^<]*?)\s*<\/command-name>/.exec(text)?.[1] ?? "";
  const words = /<command-args>([^]*)<\/command-args>/.exec(text)?.[1] ?? "";
  return name === "" ? "" : `/${name} ${words}`.trim();
};
