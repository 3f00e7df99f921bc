import { CommanderError, type Command } from "commander";
import { exitCode } from "./failure.ts";
import { note } from "./print.ts";

type Create = (finish: (code: number) => void) => Command;

/** Runs a program of this package; resolves to the exit code, never rejects. */
export const runProgram = async (name: string, create: Create, argv: string[]): Promise<number> => {
  // A reader that stops early (`svc jobs | head`) is no failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(exitCode.ok);
    note(`${name}: the output cannot be written: ${error.message}`);
    process.exit(exitCode.failure);
  });
  // A service must not end with the reader of its log.
  process.stderr.on("error", () => undefined);
  let code: number = exitCode.ok;
  try {
    await create((result) => (code = result)).parseAsync(asCommand(argv), { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.ok : exitCode.usage;
    const { report } = await import("./report.ts");
    return report(error, { json: argv.includes("--json"), name });
  }
};

/** `--version` is what everybody tries first. */
const asCommand = (argv: string[]): string[] =>
  ["-V", "--version"].includes(argv[0] ?? "") ? ["version", ...argv.slice(1)] : argv;
