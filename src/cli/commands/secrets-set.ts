import type { Command } from "commander";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { text } from "node:stream/consumers";
import type { SecretPhase } from "../../contract/secret.ts";
import { views } from "../../view/views.ts";
import { connect } from "../connect.ts";
import { exitCode, type ExitCode, usageError } from "../failure.ts";
import { note, printAnswer } from "../print.ts";

type Options = {
  repo: string;
  phase: SecretPhase;
  host?: string[];
  header?: string;
  plain?: boolean;
  branch?: string[];
  json?: boolean;
};

/** A shorter value is warned of, characters. */
const fewCharacters = 12;

/** `svc secrets set`. The value never stands in an argument: others could read it there. */
export const secretsSet = async (
  name: string,
  { repo, phase, host = [], header = "", plain = false, branch, json }: Options,
  { args }: Pick<Command, "args">,
): Promise<ExitCode> => {
  if (args.length > 1 || name.includes("="))
    throw usageError(
      "This command takes a name and the options of its --help. The value of a secret is no argument, because everybody on this machine can read those: give it on standard input (svc secrets set NAME … < file), and take another value if this one was a real one",
    );
  const value = process.stdin.isTTY ? await typed(`Value of ${name}: `) : await text(process.stdin);
  const { client } = connect();
  const listOf = (words: string[]) => words.flatMap((each) => each.split(",")).filter((each) => each !== "");
  const [hosts, branches] = [listOf(host), branch === undefined ? null : listOf(branch)];
  // Of an editor or echo.
  const given = value.replace(/\r?\n$/, "");
  if (given === "") throw usageError("The value is empty: give it on standard input");
  const known = { name, repo, phase, hosts, header: header || null, plain, branches };
  const body = await client.set_secret({ ...known, value: given });
  if (given.trim().length < fewCharacters)
    note(
      `The value of ${name} has fewer than ${fewCharacters} characters: a word of that length stands in ordinary files, too, and then fails jobs`,
    );
  return printAnswer(body, json, views.set_secret);
};

/** A line that is not shown while it is typed. Ctrl-C ends the program. */
const typed = async (question: string): Promise<string> => {
  process.stderr.write(question);
  const nowhere = new Writable({ write: (_piece, _encoding, done) => done() });
  using terminal = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  terminal.once("SIGINT", () => process.exit(exitCode.interrupted));
  // Ctrl-D rejects.
  const answer = await terminal.question("").catch(() => "");
  note("");
  return answer;
};
