import { Command, InvalidArgumentError } from "commander";
import { sanitise } from "../view/sanitise.ts";
import { fitted } from "./text/fitted.ts";

type Action<Args extends unknown[]> = (...args: Args) => Promise<number>;

/** A program without commands. `end`: what stands below them in its help. */
export const createProgramOf = (name: string, description: string, end: string): Command =>
  new Command(name)
    .description(description)
    .usage("<command> [options]")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help for a command")
    .configureHelp({ showGlobalOptions: false, minWidthToWrap: 10 })
    .configureOutput({
      writeOut: (text) => void process.stdout.write(fitted(text, process.stdout.columns ?? 80)),
      outputError: (text, write) => write(sanitise(usageText(name, text))),
    })
    .showHelpAfterError(`Try: ${name} --help`)
    .exitOverride()
    .addHelpText("after", end);

const usageText = (name: string, text: string): string => {
  const hints = [
    /too many arguments for 'run'/.test(text) ? "Put the task in quotes.\n" : "",
    /unknown option '[^']* /.test(text) ? "A task that begins with a dash goes after --\n" : "",
    /missing required argument 'job/.test(text) ? "Give the id of a job; latest is the newest\n" : "",
  ];
  return text.replace(/^error: /, `${name}: `) + hints.join("");
};

/** Has each command name its own help after an error. */
export const hintAtHelp = (program: Command, path = program.name()): void => {
  for (const command of program.commands) {
    command.showHelpAfterError(`Try: ${path} ${command.name()} --help`);
    hintAtHelp(command, `${path} ${command.name()}`);
  }
};

/** Turns a function that imports an action into the action of a command, which ends with its exit code. */
export const lazilyOf =
  (finish: (code: number) => void) =>
  <Args extends unknown[]>(load: () => Promise<Action<Args>>) =>
  async (...args: Args): Promise<void> =>
    finish(await (await load())(...args));
export type Lazily = ReturnType<typeof lazilyOf>;

export const json = ["--json", "print the service's answer as JSON"] as const;

export const jobId = [
  "<job_id>",
  "id of the job or its first digits; latest: the newest; -: the last one used",
] as const;

/** For commands that read: without an id, the newest job. */
export const jobIdOrLatest = [
  "[job_id]",
  "id of the job or its first digits; -: the last one used; without one, the newest",
  "latest",
] as const;

/** Text for `addHelpText`: commands that a user may type, a line each. */
export const examples = (...lines: string[]) =>
  [
    "after",
    ["", lines.length === 1 ? "Example:" : "Examples:", ...lines.map((line) => `  ${line}`), ""].join("\n"),
  ] as const;

/** Reads an option as a whole number within these bounds. */
export const whole =
  (min: number, max: number) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    }
    return value;
  };

/** Reads an option that can be repeated. */
export const gathered = (word: string, before: string[] = []): string[] => [...before, word];

/** Parts of an answer that `svc chat` can hide. */
const kinds = ["thinking", "tools", "narration", "final"] as const;
export type Kind = (typeof kinds)[number];

/** Reads `--hide`. */
export const kindList = (text: string): Kind[] => {
  const words = text.split(",").map((word) => word.trim());
  const hidden = kinds.filter((kind) => words.includes(kind));
  if (hidden.length !== new Set(words).size) {
    throw new InvalidArgumentError(`It must be a comma-separated list of ${kinds.join(", ")}.`);
  }
  return hidden;
};
