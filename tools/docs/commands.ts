import type { Command } from "commander";
import { item, wrapped } from "./item.ts";

/** The commands of a program, as `--help` has them, of those groups that are wanted. */
export const commandsPage = (
  program: Command,
  title: string,
  about: string,
  wants: (group: string) => boolean,
): string => {
  const commands = program.commands.filter((command) => isShown(command) && wants(command.helpGroup()));
  const groups = [...new Set(commands.map((command) => command.helpGroup()))];
  return [
    `# ${title}`,
    wrapped(about),
    ...groups.flatMap((group) => [
      ...(group === "" ? [] : [`## ${group.replace(/:$/, "")}`]),
      ...commands.filter((command) => command.helpGroup() === group).flatMap(section),
    ]),
  ].join("\n\n");
};

/** Hidden commands have no description. */
const isShown = (command: Command): boolean => command.description() !== "";

/** A command with its arguments, options and examples, then its own commands. */
const section = (command: Command): string[] => {
  const help = command.createHelp();
  const terms = [
    ...help
      .visibleArguments(command)
      .map((each) => item(`\`${help.argumentTerm(each)}\`: ${prose(help.argumentDescription(each))}`)),
    ...command.options.map((each) =>
      item(`\`${help.optionTerm(each)}\`: ${prose(help.optionDescription(each))}`),
    ),
  ];
  const after = afterHelp(command);
  return [
    `### ${escaped(
      help
        .commandUsage(command)
        .replace(/ \[options\]/, "")
        .replaceAll("|", " or "),
    )}`,
    wrapped(prose(capital(command.description()))),
    ...(terms.length > 0 ? [terms.join("\n")] : []),
    ...(after === "" ? [] : [`\`\`\`text\n${after}\n\`\`\``]),
    ...command.commands.filter(isShown).flatMap(section),
  ];
};

const capital = (text: string): string => {
  const sentence = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.:]$/.test(sentence) ? sentence : `${sentence}.`;
};

const escaped = (text: string): string => text.replaceAll("<", "\\<");

/** Outside code: no `<name>` that would be taken for a tag. */
const prose = (text: string): string => text.replaceAll("<", "&lt;");

/** What `addHelpText` has put after the help of a command. */
const afterHelp = (command: Command): string => {
  const pieces: string[] = [];
  command.configureOutput({ writeOut: (piece) => void pieces.push(piece) }).outputHelp();
  return pieces.slice(1).join("").trim();
};
