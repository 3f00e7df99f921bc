import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command, Option } from "commander";
import { createProgram as createBridge } from "../../src/cli/bridge/program.ts";
import { createProgram as createSvc } from "../../src/cli/commands.ts";

/** Writes `completion/svc.bash` and its like, made from the commands, for three shells and both programs. */
export const writeCompletions = async ({ directory }: { directory: string }): Promise<void> => {
  await mkdir(join(directory, "completion"));
  for (const create of [createSvc, createBridge]) {
    const program = create(() => undefined);
    for (const [shell, script] of Object.entries(scripts))
      await writeFile(join(directory, "completion", `${program.name()}.${shell}`), script(program));
  }
};

type Level = { path: string[]; command: Command };

/** Each command with the words that lead to it, the program itself first. */
const levelsOf = (command: Command, path: string[] = []): Level[] => [
  { path, command },
  ...command
    .createHelp()
    .visibleCommands(command)
    .filter((each) => command.commands.includes(each))
    .flatMap((each) => [each.name(), ...each.aliases()].flatMap((name) => levelsOf(each, [...path, name]))),
];

const flagsOf = ({ short, long }: Option): string[] =>
  [short, long].flatMap((flag) => (flag === undefined ? [] : [flag]));

const optionsOf = (command: Command): Option[] => [...command.createHelp().visibleOptions(command)];

const choicesOf = (command: Command): string[] =>
  command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);

/** Words that `case` compares: one pattern for all of them. */
const pattern = (words: string[]): string => words.map((word) => `"${word}"`).join("|");

/** Finds the command before the cursor, then offers its choices or its words; files where there are none. */
const bash = (program: Command): string => {
  const name = program.name();
  const levels = levelsOf(program);
  const values = levels.flatMap(({ path, command }) =>
    optionsOf(command).flatMap((option) =>
      option.argChoices === undefined
        ? []
        : [
            `    ${pattern(flagsOf(option).map((flag) => [...path, flag].join(" ")))}) words="${option.argChoices.join(" ")}" ;;`,
          ],
    ),
  );
  const taking = levels.flatMap(({ path, command }) =>
    optionsOf(command)
      .filter(({ required }) => required)
      .flatMap(flagsOf)
      .map((flag) => [...path, flag].join(" ")),
  );
  const words = levels.map(({ path, command }) => {
    const own = command.commands.length === 0 ? choicesOf(command) : namesOf(command);
    const long = optionsOf(command).flatMap(({ long: flag }) => flag ?? []);
    return `      "${path.join(" ")}") words="${own.join(" ")}" flags="${long.join(" ")}" ;;`;
  });
  return `_${name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" typed="" words="" flags="" word next
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD-1))}"; do
    next="\${typed:+$typed }$word"
    case "$next" in
      ${pattern(levels.slice(1).map(({ path }) => path.join(" ")))}) typed="$next" ;;
    esac
  done
  case "\${typed:+$typed }$before" in
${values.join("\n")}
    ${pattern(taking)}) return ;;
    *)
      case "$typed" in
${words.join("\n")}
      esac
      [[ $current == -* ]] && words="$flags" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o bashdefault -o default -F _${name} ${name}
`;
};

const namesOf = (command: Command): string[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .map((each) => each.name());

/** zsh has a layer for scripts of bash. */
const zsh = (program: Command): string =>
  `#compdef ${program.name()}\nautoload -U +X bashcompinit && bashcompinit\n${bash(program)}`;

const fish = (program: Command): string => {
  const lines = levelsOf(program).flatMap(({ path, command }) => {
    const others = namesOf(command);
    const conditions =
      path.length === 0
        ? ["__fish_use_subcommand"]
        : [
            ...path.map((word) => `__fish_seen_subcommand_from ${word}`),
            ...(others.length > 0 ? [`not __fish_seen_subcommand_from ${others.join(" ")}`] : []),
          ];
    const begin = `complete -c ${program.name()} -n '${conditions.join("; and ")}'`;
    const help = command.createHelp();
    return [
      ...help
        .visibleCommands(command)
        .map((each) => `${begin} -f -a ${each.name()} -d ${quoted(help.subcommandDescription(each))}`),
      ...(choicesOf(command).length > 0 ? [`${begin} -f -a '${choicesOf(command).join(" ")}'`] : []),
      ...optionsOf(command).map((option) => `${begin}${fishOption(option)}`),
    ];
  });
  return `${lines.join("\n")}\n`;
};

const fishOption = (option: Option): string => {
  const { argChoices, required, description } = option;
  const flags = flagsOf(option).map((flag) =>
    flag.startsWith("--") ? ` -l ${flag.slice(2)}` : ` -s ${flag.slice(1)}`,
  );
  const value = argChoices === undefined ? (required ? " -r" : "") : ` -xa '${argChoices.join(" ")}'`;
  return `${flags.join("")}${value} -d ${quoted(description)}`;
};

const quoted = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

const scripts: Record<string, (program: Command) => string> = { bash, zsh, fish };
