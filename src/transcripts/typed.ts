/** A text of a user's line: the person's part, and that of editors and the CLI in the person's name. */
export type Typed = {
  /** The person's own words; empty: there are none. */
  words: string;
  /** Written by programs, for people to see or search. Reminders are for the model only. */
  markup: string;
  /** The CLI continues another session by such a text. */
  isSummary: boolean;
};

/** Programs write between such tags, wherever in a text. */
const tag =
  "<(ide_[a-z_]+|system-reminder|task-notification|teammate-message|(?:local-command|bash)-[a-z]+)(?: [^<>]*)?>";
const leading = new RegExp(`^\\s*${tag}[^]*?</\\1>\\s*`);
/** Lazy: a greedy one needs memory for each character. */
const blocks = new RegExp(`${tag}(?:(?!</?\\1[ >])[^])*?</\\1>\\s*`, "g");
const forModel = /^(?:system-reminder|local-command-caveat)$/;

const markup =
  /^\s*(?:<(?:command-|local-command-|bash-|ide_|system-reminder|task-notification|teammate-message)|\[Request interrupted|Caveat: The messages below)/;

/** Nothing follows it. */
const continuation = /^[ \t]*This session is being continued from a previous conversation[^]*/m;

export const typedIn = (text: string): Typed => {
  const context: string[] = [];
  const cut = (block: string, name: string): string => {
    if (!forModel.test(name)) context.push(block.trim());
    return "";
  };
  // svc puts a space without width before a slash: the CLI shall hear words, not a command.
  let words = text.replace(/^\u200B(?=\s*\/)/, "");
  while (leading.test(words)) words = words.replace(leading, cut);
  words = words.replace(blocks, cut);
  const [note = ""] = continuation.exec(words) ?? [];
  words = words.slice(0, words.length - note.length);
  if (words.length < text.length) words = words.trimEnd();
  const command = commandIn(words);
  const isMarkup = command === "" && (words.trim() === "" || markup.test(words));
  return {
    words: isMarkup ? "" : command || words,
    markup: [...context, isMarkup ? words : "", note].filter((part) => part.trim() !== "").join("\n"),
    isSummary: isMarkup && note !== "",
  };
};

/** A slash command as it was typed: `/review the parser`. */
const commandIn = (text: string): string => {
  if (!/^\s*<command-(?:name|message)>/.test(text)) return "";
  const name = /<command-name>\s*\/?([^<]*?)\s*<\/command-name>/.exec(text)?.[1] ?? "";
  const words = /<command-args>([^]*)<\/command-args>/.exec(text)?.[1] ?? "";
  return name === "" ? "" : `/${name} ${words}`.trim();
};
