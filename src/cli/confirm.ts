import { createInterface } from "node:readline/promises";
import { exitCode } from "./failure.ts";

/** Asks on the terminal; `otherwise` is the answer where there is none. Ctrl-D means no, Ctrl-C ends the program. */
export const confirm = async (question: string, otherwise: boolean): Promise<boolean> => {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return otherwise;
  using terminal = createInterface({ input: process.stdin, output: process.stderr });
  terminal.once("SIGINT", () => process.exit(exitCode.interrupted));
  // Ctrl-D rejects.
  const answer = await terminal.question(question).catch(() => "");
  return /^y(es)?$/i.test(answer.trim());
};
