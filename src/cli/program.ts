import { createProgram } from "./commands.ts";
import { runProgram } from "./run-program.ts";

/** Runs svc with these arguments; resolves to the exit code, never rejects. */
export const run = (argv: string[]): Promise<number> => runProgram("svc", createProgram, argv);
