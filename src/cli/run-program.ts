import type { Command } from "commander";
import { widenNoProxy } from "../lib/no-proxy.ts";
import { version } from "../main/version.ts";
import { exitCode } from "./failure.ts";
import { note, print } from "./print.ts";

type Create = (finish: (code: number) => void) => Command;

/**
 * Runs a program of this package; resolves to the exit code, never rejects.
 * @param load imports the commands, which takes most of the time of a start
 */
export const runProgram = async (name: string, load: () => Promise<Create>, argv: string[]) => {
  widenNoProxy(process.env);
  // A reader that stops early (`svc jobs | head`) is no failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(exitCode.ok);
    note(`${name}: the output cannot be written: ${error.message}`);
    process.exit(exitCode.failure);
  });
  // A service must not end with the reader of its log.
  process.stderr.on("error", () => undefined);
  setSizes();
  const words = asCommand(argv);
  if (words.length === 1 && words[0] === "version") {
    print(`${name} ${version}`);
    return exitCode.ok;
  }
  let code: number = exitCode.ok;
  try {
    const create = await load();
    await create((result) => (code = result)).parseAsync(words, { from: "user" });
    return code;
  } catch (error) {
    const { CommanderError } = await import("commander");
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.ok : exitCode.usage;
    const { report } = await import("./report.ts");
    return report(error, { json: argv.includes("--json"), name });
  }
};

/** Some terminals have no size, as that of `docker exec`: it is taken from COLUMNS and LINES, else 80 × 24. */
const setSizes = (): void => {
  const { COLUMNS, LINES } = process.env;
  for (const stream of [process.stdout, process.stderr].filter(({ isTTY }) => isTTY)) {
    stream.columns ||= Number(COLUMNS) || 80;
    stream.rows ||= Number(LINES) || 24;
  }
};

/** `--version` is what everybody tries first. */
const asCommand = (argv: string[]): string[] =>
  ["-V", "--version"].includes(argv[0] ?? "") ? ["version", ...argv.slice(1)] : argv;
