import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { urlOfShort } from "../../contract/repository-url.ts";
import { text } from "node:stream/consumers";
import { CliError, usageError } from "../failure.ts";
import { note } from "../print.ts";

/** The service has another working directory: a relative path is resolved here. */
export const fromHere = (path: string): string => (/^\.{1,2}(\/|$)/.test(path) ? resolve(path) : path);

/** A repository as a user names it: also `acme/app` and `github.com/acme/app`, where no such path exists. */
export const repositoryOf = (word: string, gitHost: string): string => {
  const path = fromHere(word);
  if (path !== word || /^(\/|[a-z][a-z0-9+.-]*:)|@/i.test(word)) return path;
  return word !== "" && existsSync(word) ? resolve(word) : urlOfShort(word, gitHost);
};

type Text = {
  noun: "task" | "message" | "answer";
  /** Limit of the service, characters. */
  longest: number;
  /** What to do about an empty one. */
  empty: string;
};

/**
 * The text from the command line; `-` reads it from standard input, without trailing line breaks.
 * @throws CliError when it is empty, or longer than the service accepts
 */
export const readText = async (argument: string, { noun, longest, empty }: Text): Promise<string> => {
  if (argument === "-" && process.stdin.isTTY)
    note(`Type the ${noun}, and end it with Ctrl-D on a line of its own:`);
  const given = argument === "-" ? (await text(process.stdin)).trimEnd() : argument;
  if (given.trim() === "") throw usageError(`The ${noun} is empty: ${empty}`);
  if (given.length > longest)
    throw usageError(
      `The ${noun} has ${given.length.toLocaleString("en")} characters and may have ${longest.toLocaleString("en")}: put the details into a file that the agent can read`,
    );
  return given;
};

/** What the user writes in the editor that git uses. */
export const writeText = async (begin: string): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), "svc-"));
  try {
    const file = join(directory, "TASK.md");
    await writeFile(file, begin);
    const { status } = spawnSync("sh", ["-c", startEditor, "sh", file], { stdio: "inherit" });
    if (status !== 0) throw new CliError("The editor failed, so nothing was submitted: set EDITOR");
    return (await readFile(file, "utf8")).trimEnd();
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
};

/** The variables may have options. */
const startEditor = 'eval "$(git var GIT_EDITOR || echo "${VISUAL:-${EDITOR:-vi}}") \\"\\$1\\""';
