import { resolve } from "node:path";
import { usageError } from "../failure.ts";
import { note } from "../print.ts";

/** The service has another working directory: a relative path is resolved here. */
export const fromHere = (path: string): string => (/^\.{1,2}(\/|$)/.test(path) ? resolve(path) : path);

type Text = {
  noun: "task" | "message";
  /** Limit of the service, characters. */
  longest: number;
  empty: string;
  tooLong: (length: string) => string;
};

/**
 * The text from the command line; `-` reads it from `input`, without trailing line breaks.
 * @throws CliError when it is empty, or longer than the service accepts
 */
export const readText = async (
  argument: string,
  { noun, longest, empty, tooLong }: Text,
  input: NodeJS.ReadStream = process.stdin,
): Promise<string> => {
  // More than any text, even one with blank lines after it: the rest is not worth the memory.
  const bound = 10 * longest;
  let text = argument === "-" ? "" : argument;
  if (argument === "-") {
    if (input.isTTY) note(`Type the ${noun}, and end it with Ctrl-D on a line of its own:`);
    input.setEncoding("utf8");
    for await (const piece of input) {
      text += String(piece);
      if (text.length > bound) throw usageError(tooLong(`more than ${bound.toLocaleString("en")}`));
    }
    text = text.trimEnd();
  }
  if (text.trim() === "") throw usageError(`The ${noun} is empty: ${empty}`);
  if (text.length > longest) throw usageError(tooLong(text.length.toLocaleString("en")));
  return text;
};
