import { createInterface } from "node:readline";
import { painter } from "../print.ts";

/**
 * Asks for a message on the terminal: a line, or several where one ends in `\` or where they come together, as pasted
 * ones do. Null: the user leaves, or the signal aborts.
 * @param history earlier lines, for the arrow keys; gets this one
 */
export const askMessage = async (history: string[] = [], signal?: AbortSignal): Promise<string | null> => {
  const { stdin: input, stdout: output } = process;
  const paint = painter(output);
  using readline = createInterface({ input, output, terminal: true, history, historySize: 1000 });
  const { promise, resolve } = Promise.withResolvers<string | null>();
  let lines: string[] = [];
  let taking: NodeJS.Immediate | undefined;

  const show = (): void => {
    readline.setPrompt(lines.length === 0 ? paint("bold", "> ") : paint("dim", "… "));
    readline.prompt(true);
  };
  /** Called when no more has come at once. */
  const finish = (): void => {
    const last = lines.at(-1) ?? "";
    if (last.endsWith("\\")) lines[lines.length - 1] = last.slice(0, -1);
    // The end of what was pasted waits for the return key.
    if (last.endsWith("\\") || readline.line !== "") show();
    else resolve(lines.join("\n"));
  };
  readline.on("line", (line) => {
    lines.push(line);
    clearImmediate(taking);
    taking = setImmediate(finish);
  });
  readline.on("history", (all) => history.splice(0, Infinity, ...all));
  readline.on("close", () => resolve(null));
  const leave = (): void => readline.close();
  signal?.addEventListener("abort", leave);
  readline.on("SIGINT", () => {
    if (readline.line === "" && lines.length === 0) return readline.close();
    lines = [];
    readline.write(null, { ctrl: true, name: "e" });
    readline.write(null, { ctrl: true, name: "u" });
    output.write("\n");
    show();
  });
  show();
  if (signal?.aborted === true) leave();
  const message = await promise;
  signal?.removeEventListener("abort", leave);
  if (message === null) output.write("\n");
  return message;
};
