import { CommanderError } from "commander";
import { createProgram } from "./commands.ts";
import { exitCode } from "./failure.ts";
import { note } from "./print.ts";

/** Runs svc with these arguments; resolves to the exit code, never rejects. */
export const run = async (argv: string[]): Promise<number> => {
  // A reader that stops early (`svc jobs | head`) is no failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(exitCode.ok);
    note(`svc: the output cannot be written: ${error.message}`);
    process.exit(exitCode.failure);
  });
  // A service must not end with the reader of its log.
  process.stderr.on("error", () => undefined);
  const [first, second] = argv.filter((argument) => !argument.startsWith("-"));
  const command = (first === "help" ? second : first) ?? "";
  if (later.has(command)) {
    note(`svc: ${command} is not in this version; svc --help lists what is`);
    return exitCode.usage;
  }
  let code: number = exitCode.ok;
  try {
    await createProgram((result) => (code = result)).parseAsync(asCommand(argv), { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.ok : exitCode.usage;
    const { report } = await import("./report.ts");
    return report(error, { json: argv.includes("--json") });
  }
};

/** Documented commands of a later version. Help does not list them: it does not promise what is not built. */
const later = new Set(["update", "agent", "push", "agents"]);

/** `svc --version` is what everybody tries first. */
const asCommand = (argv: string[]): string[] =>
  ["-V", "--version"].includes(argv[0] ?? "") ? ["version", ...argv.slice(1)] : argv;
