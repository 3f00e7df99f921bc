import { CommanderError } from "commander";
import { exitCode } from "./exit-code.ts";
import { createProgram } from "./commands.ts";
import { notBuilt } from "./not-built.ts";
import { note } from "./print.ts";

/** Runs svc with these arguments; resolves to the exit code, never rejects. */
export const run = async (argv: string[]): Promise<number> => {
  // A reader that has seen enough (`svc jobs | head`) is no failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(exitCode.ok);
    note(`svc: the output cannot be written: ${error.message}`);
    process.exit(exitCode.failure);
  });
  // Nobody reads what is said about it any more: a service must not die with the reader of its log.
  process.stderr.on("error", () => undefined);
  const missing = notBuilt(argv);
  if (missing !== null) {
    note(missing);
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

/** `svc --version` is what everybody tries first. */
const asCommand = (argv: string[]): string[] =>
  ["-V", "--version"].includes(argv[0] ?? "") ? ["version", ...argv.slice(1)] : argv;
