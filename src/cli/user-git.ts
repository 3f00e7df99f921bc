import { execFile } from "node:child_process";
import { CliError, usageError } from "./failure.ts";

type Result = { ok: boolean; stdout: string; said: string };

type Call = { cwd?: string; input?: string; env?: NodeJS.ProcessEnv };

/** Runs git as the user would: with the user's configuration, hooks and terminal. */
export const git = (args: string[], { input, ...call }: Call = {}): Promise<Result> =>
  new Promise((done) => {
    const child = execFile("git", args, { ...call, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      done({ ok: error === null, stdout: stdout.trimEnd(), said: stderr.trim() || (error?.message ?? "") }),
    );
    // git may end without reading it.
    child.stdin?.on("error", () => undefined).end(input);
  });

/** As `git`; resolves to its output. @throws CliError with git's own words */
export const requireGit = async (what: string, args: string[]): Promise<string> => {
  const { ok, stdout, said } = await git(args);
  if (!ok) throw new CliError(`git did not ${what}: ${said}`);
  return stdout;
};

/** Directory of the checkout that the user is in. `need`: why there must be one. */
export const checkoutHere = async (need: string): Promise<string> => {
  const { ok, stdout } = await git(["rev-parse", "--show-toplevel"]);
  if (!ok || stdout === "") throw usageError(`There is no checkout in ${process.cwd()}: ${need}`);
  return stdout;
};
