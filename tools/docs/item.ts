import wrapAnsi from "wrap-ansi";

const columns = 120;

/** Text in lines of at most 120 columns, those after the first indented. */
export const wrapped = (text: string, indent = ""): string =>
  wrapAnsi(text, columns - indent.length).replaceAll("\n", `\n${indent}`);

/** An entry of a list. */
export const item = (text: string): string => `- ${wrapped(text, "  ")}`;
