/**
 * Text from a model, a repository or a remote, made harmless for a terminal: whole escape sequences are dropped, any
 * control character that is left (line breaks apart), and characters that reverse or hide text, show as U+FFFD.
 * Linear in the length of the text, unlike `util.stripVTControlCharacters`, which a hostile text can hold up for minutes.
 */
export const sanitise = (text: string): string =>
  text
    .toWellFormed()
    .replace(escapeSequence, "")
    .replace(/\r\n?/g, "\n")
    .replaceAll("\t", "  ")
    .replace(harmful, "\u{FFFD}");

/** The same on one line: breaks and runs of white space become a single space. */
export const oneLine = (text: string): string => sanitise(text).replace(/\s+/g, " ").trim();

const escape = String.fromCodePoint(0x1b);
const bell = String.fromCodePoint(0x07);

// No alternative reaches over the next escape character: that keeps the search linear.
const escapeSequence = new RegExp(
  [
    `${escape}\\[[0-?]*[ -/]*[@-~]`,
    `${escape}[\\]PX^_][^${escape}${bell}]*(?:${bell}|${escape}\\\\)`,
    `${escape}[ -/]*[0-Z\\\\^-~]`,
  ].join("|"),
  "g",
);

const harmful = /[[\p{Cc}\p{Bidi_Control}\u{2028}\u{2029}\u{E0000}-\u{E007F}]--[\n]]/gv;
