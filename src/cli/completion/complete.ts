import type { Argument, Command, Option } from "commander";
import { exitCode, type ExitCode } from "../failure.ts";
import { print } from "../print.ts";
import { oneLine } from "../../view/sanitise.ts";

/** A word that may stand at the cursor, and what it means. */
export type Suggestion = readonly [word: string, about: string];

/**
 * Prints what may stand in place of the last of these words, a line each: for bash the words that begin with it, for zsh
 * and fish all words with what they mean. Or `:files` or `:directories` alone.
 * @param words what stands after the program's name, up to the cursor
 */
export const printCompletions = async (
  program: Command,
  shell: string,
  words: string[],
): Promise<ExitCode> => {
  const apart = optionsApart(words);
  const current = apart.at(-1) ?? "";
  const found = await suggest(program, apart.slice(0, -1), current);
  if (typeof found === "string") print(`:${found}`);
  else {
    const fitting = shell === "bash" ? found.filter(([word]) => word.startsWith(current)) : found;
    for (const suggestion of fitting) print(line[shell]?.(suggestion) ?? suggestion[0]);
  }
  return exitCode.ok;
};

const line: Record<string, (suggestion: Suggestion) => string> = {
  zsh: ([word, about]) => word.replaceAll(":", "\\:") + (about === "" ? "" : `:${short(about)}`),
  fish: ([word, about]) => `${word}\t${short(about)}`,
};

const short = (about: string): string => oneLine(about).slice(0, 72);

/** `--status=run` as two words. bash passes the equals sign as a word of its own. */
const optionsApart = (words: string[]): string[] =>
  words.flatMap((word, place) => {
    if (word === "=") return place === words.length - 1 ? [""] : [];
    const [, option, value] = /^(--[^=]+)=(.*)$/s.exec(word) ?? [];
    return option === undefined || value === undefined ? [word] : [option, value];
  });

type Suggestions = readonly Suggestion[] | "files" | "directories";

/** What may stand after these words, where `current` is begun. */
const suggest = async (program: Command, before: string[], current: string): Promise<Suggestions> => {
  const { command, awaiting, operands, onlyOperands } = placeAfter(program, before);
  if (awaiting !== undefined) return valuesOf(command, awaiting);
  if (current.startsWith("-") && !onlyOperands) return optionsOf(command);
  if (command.commands.length > 0) {
    const help = command.createHelp();
    const all = help.visibleCommands(command);
    return operands > 0 ? [] : all.map((each) => [each.name(), help.subcommandDescription(each)]);
  }
  const { registeredArguments: all } = command;
  const argument = all[operands] ?? all.findLast(({ variadic }) => variadic);
  return argument === undefined ? [] : valuesOf(command, argument);
};

type Place = {
  command: Command;
  /** The option whose value comes next. */
  awaiting: Option | undefined;
  operands: number;
  /** Whether `--` has ended the options. */
  onlyOperands: boolean;
};

const placeAfter = (program: Command, words: string[]): Place => {
  const place: Place = { command: program, awaiting: undefined, operands: 0, onlyOperands: false };
  for (const word of words) {
    const isOption = word.startsWith("-") && word !== "-" && !place.onlyOperands;
    const sub = place.operands === 0 && !isOption ? subcommand(place.command, word) : undefined;
    if (place.awaiting !== undefined) place.awaiting = undefined;
    else if (word === "--") place.onlyOperands = true;
    else if (isOption) place.awaiting = optionWithValue(place.command, word);
    else if (sub !== undefined) place.command = sub;
    // `help` is followed by the name of a command.
    else if (word !== "help" || place.command.commands.length === 0) place.operands++;
  }
  return place;
};

const optionsOf = (command: Command): Suggestion[] =>
  command
    .createHelp()
    .visibleOptions(command)
    .flatMap(({ short: other, long, description }) =>
      [other, long].flatMap((name) => (name?.startsWith("--") ? [[name, description] as const] : [])),
    );

const subcommand = (command: Command, word: string): Command | undefined =>
  command.commands.find((each) => each.name() === word || each.aliases().includes(word));

const optionWithValue = (command: Command, word: string): Option | undefined =>
  command.options.find((option) => option.required && [option.short, option.long].includes(word));

const valuesOf = async (command: Command, taker: Option | Argument): Promise<Suggestions> => {
  if (taker.argChoices !== undefined) return taker.argChoices.map((choice) => [choice, ""]);
  const option = "flags" in taker ? taker : undefined;
  const placeholder = option === undefined ? taker.name() : /<(\w+)/.exec(option.flags)?.[1];
  const kind = kinds[option?.long ?? ""] ?? kinds[placeholder ?? ""];
  if (kind === undefined || kind === "files" || kind === "directories") return kind ?? [];
  const { namesOf } = await import("./names.ts");
  return namesOf(kind, command.name());
};

/** What an option, or an argument or an option's value of this name, is completed from. */
const kinds: Record<string, "files" | "directories" | "jobs" | "profiles" | "worktrees"> = {
  job_id: "jobs",
  job_ids: "jobs",
  "--profile": "profiles",
  "--worktree-id": "worktrees",
  worktree: "worktrees",
  worktrees: "worktrees",
  "--file": "files",
  path: "files",
  directory: "directories",
  repository: "directories",
  url: "directories",
};
