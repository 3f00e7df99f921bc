import { Argument, Option, type Command } from "commander";
import { z } from "zod";
import type { Definitions, McpOperation } from "../contract/operation.ts";
import { flagWords } from "../view/sanitise.ts";
import { usageError } from "./failure.ts";
import { examples, jobIdOrLatest, whole } from "./options.ts";

/** What was typed, by the operation's parameters, and flags that are none of them. */
export type Asked = { name: string; input: Record<string, unknown>; flags: Record<string, unknown> };

type Field = {
  type?: string;
  enum?: string[];
  anyOf?: Field[];
  $ref?: string;
  minimum?: number;
  maximum?: number;
  default?: unknown;
  description?: string;
};
type Schema = { properties: Record<string, Field>; required: string[]; $defs: Record<string, Field> };

/** The input as JSON Schema, as for MCP: it says what each flag takes. */
const schemaOf = ({ input }: McpOperation): Schema => ({
  properties: {},
  required: [],
  $defs: {},
  ...(z.toJSONSchema(input, { io: "input" }) as Partial<Schema>),
});

/**
 * A command for each operation that declares one, with arguments and flags from its input; returns the commands by the
 * name of their operation.
 * @param run what the commands do
 */
export const addOperationCommands = (
  program: Command,
  operations: Definitions,
  run: (asked: Asked) => Promise<void>,
): Record<string, Command> => {
  const named = Object.entries(operations).map(([name, operation]) => ({
    ...operation,
    name,
    say: sayIn(program, operations, operation),
  }));
  const byPath = Map.groupBy(named, ({ command }) => command?.name);
  const commands: Record<string, Command> = {};
  for (const [path, same] of byPath) {
    const [first] = same;
    if (path !== undefined && first !== undefined) commands[first.name] = declare(program, path, same, run);
  }
  return commands;
};

/** `say` turns a text of the operation into one for a shell. */
type Named = McpOperation & { name: string; say: (text: string) => string };

/** Operations and parameters are named as commands and flags; an empty value is a flag that is left out. */
const sayIn =
  (program: Command, operations: Definitions, { input }: McpOperation) =>
  (text: string): string =>
    inCommands(flagWords(text), program.name(), operations)
      .replaceAll("`", "")
      .replace(/\bempty or |\bempty(?=: )/, (word) => (word === "empty" ? "without it" : ""))
      .replaceAll(nameInWords, (word) => (word in input.shape ? flagOf(word) : word));

const nameInWords = /\b[a-z]+(?:_[a-z]+)+\b/g;

/** The commands in place of the operations that the text names. */
export const inCommands = (text: string, program: string, operations: Definitions): string =>
  text.replaceAll(nameInWords, (word) => {
    const path = operations[word]?.command?.name;
    return path === undefined ? word : `${program} ${path}`;
  });

const declare = (
  program: Command,
  path: string,
  same: Named[],
  run: (asked: Asked) => Promise<void>,
): Command => {
  const [first] = same as [Named];
  const words = path.split(" ");
  const parent = program.commands.find((each) => words.length > 1 && each.name() === words[0]) ?? program;
  const command = parent
    .command(words.at(-1) ?? path)
    .helpGroup(`${first.command?.group}:`)
    .summary(first.title.charAt(0).toLowerCase() + first.title.slice(1))
    .description(abouts[first.name] ?? first.say(first.summary));
  const args = same.flatMap((each) => argumentsOf(each, same.length > 1));
  for (const argument of args) command.addArgument(argument);
  const names = args.map((argument) => argument.name());
  const options = optionsOf(first, names);
  for (const { option } of options) command.addOption(option);
  const example = same.length > 1 ? [] : names.map((name) => forms[name]?.example ?? name.toUpperCase());
  return command
    .option("--json", "print the answer as JSON")
    .addHelpText(...examples([program.name(), path, ...example].join(" ")))
    .action(async (...typed: unknown[]) => {
      const given = names.map((name, index) => [name, joined(name, typed[index])] as const);
      const flags = command.opts<Record<string, unknown>>();
      const chosen = given[0]?.[1] === undefined ? first : (same.at(-1) ?? first);
      const values = [
        ...options.map(({ parameter, option }) => [parameter, flags[option.attributeName()]] as const),
        ...given,
      ];
      const input = values.filter(([name, value]) => name in chosen.input.shape && value !== undefined);
      await run({ name: chosen.name, input: Object.fromEntries(input), flags });
    });
};

/** `isChoice`: without them the command means another operation. */
const argumentsOf = (operation: Named, isChoice: boolean): Argument[] => {
  const { properties, required } = schemaOf(operation);
  return (operation.command?.args ?? []).map((name) => {
    if (name === "job_id" && operation.annotations.readOnly) {
      const [shape, words, latest] = jobIdOrLatest;
      return new Argument(shape, words).default(latest);
    }
    const shown = name + (forms[name]?.many === undefined ? "" : "...");
    const about = forms[name]?.about ?? operation.say(properties[name]?.description ?? "");
    return new Argument(required.includes(name) && !isChoice ? `<${shown}>` : `[${shown}]`, about);
  });
};

/** The words of an argument that takes several as the one text that the operation takes. */
const joined = (parameter: string, value: unknown): unknown => {
  const { many } = forms[parameter] ?? {};
  if (!Array.isArray(value) || many === undefined) return value;
  const withComma = value.find((word: string) => many === "," && word.includes(","));
  if (withComma !== undefined)
    throw usageError(`${withComma}: svc cannot send a path with a comma, give the worktree's id`);
  return value.length === 0 ? undefined : value.join(many);
};

const optionsOf = (operation: Named, args: string[]): { parameter: string; option: Option }[] => {
  const { properties, required, $defs } = schemaOf(operation);
  return Object.entries(properties)
    .filter(([parameter]) => !args.includes(parameter))
    .map(([parameter, field]) => {
      const description = operation.say(field.description ?? "");
      const option = optionOf(parameter, { ...field, description }, $defs);
      return { parameter, option: option.makeOptionMandatory(required.includes(parameter)) };
    });
};

const optionOf = (parameter: string, field: Field, $defs: Schema["$defs"]): Option => {
  const flags = forms[parameter]?.flags ?? `--${parameter.replaceAll("_", "-")}`;
  const about = forms[parameter]?.about ?? field.description;
  if (field.type === "boolean")
    return new Option(field.default === true ? flags.replace("--", "--no-") : flags, about);
  const choices = choicesOf(field, $defs);
  if (choices.length > 0) return new Option(`${flags} <${parameter}>`, about).choices(choices);
  if (field.type !== "integer") return new Option(`${flags} <text>`, about);
  const { minimum = 0, maximum = Infinity, default: value } = field;
  const option = new Option(`${flags} <number>`, about).argParser(whole(minimum, maximum));
  return value === 0 ? option : option.default(value);
};

/** An empty choice is that of leaving the flag out. */
const choicesOf = (field: Field, $defs: Schema["$defs"]): string[] => [
  ...(field.enum ?? []).filter(Boolean),
  ...(field.anyOf ?? []).flatMap((each) => choicesOf(each, $defs)),
  ...(field.$ref === undefined ? [] : choicesOf($defs[field.$ref.split("/").at(-1) ?? ""] ?? {}, $defs)),
];

/** The flag of a parameter, as short as it is. */
export const flagOf = (parameter: string): string =>
  forms[parameter]?.flags?.split(", ")[0] ?? `--${parameter.replaceAll("_", "-")}`;

/** Descriptions of commands that do more than their operation. */
const abouts: Record<string, string> = {
  prepare_worktree:
    "Clone or update a repository and check out a worktree on a branch of its own, for svc run --worktree-id. Waits until it is ready.",
};

type Form = {
  flags?: string;
  about?: string;
  /** Argument in the example of the help. */
  example?: string;
  /** Between the words of an argument that takes several. */
  many?: string;
};

/** What of a parameter in a shell does not follow from its name and schema. */
const forms: Record<string, Form> = {
  job_id: {
    about: "id of the job or its first digits; latest: the newest; -: the last one used",
    example: "latest",
  },
  worktree_id: { example: "0b8e" },
  session_id: { flags: "--session", example: "5a4d7a7e" },
  query: { many: " ", example: `'"time zone" OR UTC -docs'` },
  paths: { many: ",", about: "paths or ids of worktrees, or first digits of ids", example: '"$ID"' },
  repo_url: { flags: "-r, --repo", example: "https://github.com/acme/app" },
  base_ref: { flags: "--base, --base-ref" },
  cursor: { about: "where to go on: the line below a list that is not whole has it" },
  limit: { flags: "-n, --limit" },
  last_n: { flags: "-n, --last" },
  status: { flags: "-s, --status" },
  profile: { flags: "-p, --profile" },
  project: { flags: "-p, --project" },
  model: { flags: "-m, --model" },
  force: { flags: "-f, --force" },
  q: { flags: "--search" },
};
