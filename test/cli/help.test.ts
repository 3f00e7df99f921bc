import type { Command } from "commander";
import { execFileSync, spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { createProgram as createBridge } from "../../src/cli/bridge/program.ts";
import { createProgram as createSvc } from "../../src/cli/commands.ts";
import { fitted } from "../../src/cli/text/fitted.ts";
import { operations } from "../../src/contract/operations.ts";
import { transcriptOperations } from "../../src/contract/transcript.ts";

/** Commands that print no data, with what they do instead. */
const withoutJson: Record<string, string> = {
  "svc serve": "runs until it is stopped",
  "svc drain": "waits; its exit code says it",
  "svc open": "opens a browser",
  "svc checkout": "changes the checkout",
  "svc apply": "changes the checkout",
  "svc completion": "prints a script",
  "svc agents": "a screen; with --headless always JSON",
  "svc push": "shows what docker or podman prints",
  "bridge serve": "runs until it is stopped",
  "bridge completion": "prints a script",
};

const pathOf = (command: Command): string =>
  command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;

const leaves = (command: Command): Command[] =>
  command.commands.length === 0
    ? [command]
    : command.commands.filter((each) => each.description() !== "").flatMap(leaves);

const programs = [createSvc(() => undefined), createBridge(() => undefined)];
const commands = programs.flatMap(leaves).map((command) => [pathOf(command), command] as const);

const helpOf = (command: Command, columns = 80): string => {
  let help = "";
  const writeOut = (text: string): void => void (help += fitted(text, columns));
  command.configureOutput({ writeOut, getOutHelpWidth: () => columns });
  command.outputHelp();
  return help;
};

/** Programs, their groups of commands and their commands. */
const withGroups = (command: Command): Command[] => [command, ...command.commands.flatMap(withGroups)];

const toolNames = Object.keys({ ...operations, ...transcriptOperations });

test.each(programs.flatMap(withGroups).map((command) => [pathOf(command), command] as const))(
  "the help of %s fits 60 columns, and names commands and flags, no tools",
  (_, command) => {
    const help = helpOf(command, 60);
    expect(help.split("\n").filter((line) => line.length > 60)).toEqual([]);
    expect(toolNames.filter((name) => name.includes("_") && help.includes(name))).toEqual([]);
    expect(help).not.toMatch(/\bempty: |`|\bwith force\b/i);
    // A command that is broken can be copied as it is.
    const commands = (text: string): string[] =>
      [...text.replaceAll(/ \\\n +/g, " ").matchAll(/^ {2}(?:svc|bridge) .*/gm)].map(([line]) =>
        line.replaceAll(/ {2,}(?=#)/g, " "),
      );
    expect(commands(help)).toEqual(commands(helpOf(command)));
  },
);

test.each(commands)("%s has an example in its help", (path, command) => {
  expect(helpOf(command)).toMatch(new RegExp(`^Examples?:\n(?: .*\n|\n)*? .*\\b${path}\\b`, "m"));
});

test("every command that prints data prints it as JSON with --json", () => {
  const without = commands.filter(([, { options }]) => options.every(({ long }) => long !== "--json"));
  expect(without.map(([path]) => path).toSorted()).toEqual(Object.keys(withoutJson).toSorted());
});

describe.each(programs.map((program) => [program.name(), program] as const))("man %s", (name, program) => {
  const page = join(dirname(process.env["TEST_PROGRAM"] ?? ""), "man", `${name}.1`);

  test("is a page without faults", () => {
    const { stdout } = spawnSync("mandoc", ["-T", "lint", "-W", "warning", page], { encoding: "utf8" });
    // The same sources make the same page on any day.
    expect(stdout.replace(/^mandoc: .*missing date, using "": TH\n/, "")).toBe("");
  });

  test("has every command with each of its options, and the examples as typed", () => {
    const shown = execFileSync("mandoc", ["-T", "utf8", "-O", "width=200", page], { encoding: "utf8" });
    // Bold is a letter struck over itself.
    const plain = shown.replaceAll(new RegExp(`.${String.fromCodePoint(8)}`, "g"), "");
    for (const command of leaves(program)) {
      expect(plain).toMatch(new RegExp(`^ +${pathOf(command)}\\b`, "m"));
      for (const { flags } of command.options) expect(plain).toContain(flags);
      const [example = ""] = /(?<=Examples?:\n).*/.exec(helpOf(command)) ?? [];
      expect(plain).toContain(example.trim());
    }
  });
});
