import type { Command } from "commander";
import { execFileSync, spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { createProgram as createBridge } from "../../src/cli/bridge/program.ts";
import { createProgram as createSvc } from "../../src/cli/commands.ts";

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

const helpOf = (command: Command): string => {
  let help = "";
  command.configureOutput({ writeOut: (text) => void (help += text) });
  command.outputHelp();
  return help;
};

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
