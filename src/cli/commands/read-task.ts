import { usageError } from "../failure.ts";
import { note } from "../print.ts";

/** What the service takes, see `RunTaskInput` of the contract. */
const longest = 100_000;

/**
 * The task of the command line; `-` reads it from `input`, without the line breaks at its end.
 * @throws CliError when there is no task in it, or more than the service takes
 */
export const readTask = async (argument: string, input: NodeJS.ReadStream): Promise<string> => {
  const task = argument === "-" ? (await readAll(input)).trimEnd() : argument;
  if (task.trim() === "") throw usageError("The task is empty: say in plain words what the agent is to do");
  if (task.length > longest) throw tooLong(task.length.toLocaleString("en"));
  return task;
};

const readAll = async (input: NodeJS.ReadStream): Promise<string> => {
  if (input.isTTY) note("Type the task, and end it with Ctrl-D on a line of its own:");
  let text = "";
  input.setEncoding("utf8");
  for await (const piece of input) {
    text += String(piece);
    // Beyond any task, even one followed by blank lines: the rest is not worth the memory.
    if (text.length > 10 * longest) throw tooLong("more than 1,000,000");
  }
  return text;
};

const tooLong = (length: string): Error =>
  usageError(
    `The task has ${length} characters and may have 100,000: put the details in a file of the repository and name it in the task`,
  );
