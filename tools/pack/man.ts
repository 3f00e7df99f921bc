import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { createProgram as createBridge } from "../../src/cli/bridge/program.ts";
import { createProgram as createSvc } from "../../src/cli/commands.ts";
import { version } from "../../src/main/version.ts";

/** Writes `man/svc.1` and `man/bridge.1`, made from what `--help` prints. */
export const writeManPages = async ({ directory }: { directory: string }): Promise<void> => {
  await mkdir(join(directory, "man"));
  for (const [create, other] of [
    [createSvc, "bridge"],
    [createBridge, "svc"],
  ] as const) {
    const program = create(() => undefined);
    await writeFile(join(directory, "man", `${program.name()}.1`), manPage(program, other));
  }
};

/** A page in the man(7) macros. */
const manPage = (program: Command, other: string): string => {
  const name = program.name();
  return [
    `.TH ${name.toUpperCase()} 1 "" "${name} ${version}"`,
    ".SH NAME",
    text(`${name} - ${program.description()}`),
    ".SH SYNOPSIS",
    text(`${name} ${program.usage()}`),
    ".SH COMMANDS",
    ...program.commands.flatMap(section),
    ".SH NOTES",
    ...verbatim(program).slice(1),
    ".SH SEE ALSO",
    text(`${other}(1)`),
    "",
  ].join("\n");
};

/** A command with its arguments, options and examples, then its own commands. */
const section = (command: Command): string[] => {
  const help = command.createHelp();
  return [
    `.SS ${text(help.commandUsage(command))}`,
    text(command.description()),
    ...help
      .visibleArguments(command)
      .flatMap((each) => item(help.argumentTerm(each), help.argumentDescription(each))),
    ...command.options.flatMap((each) => item(help.optionTerm(each), help.optionDescription(each))),
    ...verbatim(command),
    ...command.commands.flatMap(section),
  ];
};

const item = (term: string, description: string): string[] => [".TP", `.B ${text(term)}`, text(description)];

/** What `addHelpText` has put after the help of a command. */
const verbatim = (command: Command): string[] => {
  const pieces: string[] = [];
  command.configureOutput({ writeOut: (piece) => void pieces.push(piece) }).outputHelp();
  const after = pieces.slice(1).join("").trim();
  return after === "" ? [] : [".PP", ".EX", ...after.split("\n").map(text), ".EE"];
};

/** A line of text without what roff would take as a request or an escape. */
const text = (line: string): string =>
  line
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replace(/^(?=[.'])/, "\\&");
