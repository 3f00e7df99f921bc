import { usageError } from "../failure.ts";
import { note } from "../print.ts";

/** More than any model reads at once. */
const longest = 1_000_000;

/**
 * The message of the command line; `-` and undefined read it from `input`, without the line breaks at its end.
 * @throws CliError when there is nothing in it, or too much
 */
export const readMessage = async (
  argument: string | undefined,
  input: NodeJS.ReadStream,
): Promise<string> => {
  const message = argument === undefined || argument === "-" ? (await readAll(input)).trimEnd() : argument;
  if (message.trim() === "") throw usageError("The message is empty: say something to the agent");
  if (message.length > longest) throw tooLong();
  return message;
};

const readAll = async (input: NodeJS.ReadStream): Promise<string> => {
  if (input.isTTY) note("Type the message, and end it with Ctrl-D on a line of its own:");
  let text = "";
  input.setEncoding("utf8");
  for await (const piece of input) {
    text += String(piece);
    if (text.length > 2 * longest) throw tooLong();
  }
  return text;
};

const tooLong = (): Error =>
  usageError(
    "The message has more than 1,000,000 characters: put it into a file that the agent can read, and name that",
  );
