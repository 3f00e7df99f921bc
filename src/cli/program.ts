import { createProgram } from "./commands.ts";
import { exitCode } from "./failure.ts";
import { note } from "./print.ts";
import { runProgram } from "./run-program.ts";

/** Runs svc with these arguments; resolves to the exit code, never rejects. */
export const run = async (argv: string[]): Promise<number> => {
  const [first, second] = argv.filter((argument) => !argument.startsWith("-"));
  const command = (first === "help" ? second : first) ?? "";
  if (later.has(command)) {
    note(`svc: ${command} is not in this version; svc --help lists what is`);
    return exitCode.usage;
  }
  return await runProgram("svc", createProgram, argv);
};

/** Documented commands of a later version. Help does not list them: it does not promise what is not built. */
const later = new Set(["update", "agents"]);
