/** Exit codes; docs/use/cli.md and the end of `svc --help` list the same. */
export const exitCode = {
  ok: 0,
  /** The job did not succeed, the service refused or failed, or it cannot be reached. */
  failure: 1,
  /** The request cannot work: an option, an argument, or an input that the service calls invalid. */
  usage: 2,
  /** The job waits for an answer of a person. */
  waiting: 4,
  interrupted: 130,
  terminated: 143,
} as const;

export type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** A failure with a sentence for the user. `code` is what `--json` shows. */
export class CliError extends Error {
  override name = "CliError";
  readonly exitCode: ExitCode;
  readonly code: string;

  constructor(message: string, { exit = exitCode.failure, code = "cli_error", cause }: Options = {}) {
    super(message, { cause });
    this.exitCode = exit;
    this.code = code;
  }
}

type Options = { exit?: ExitCode; code?: string; cause?: unknown };

/** The command line is wrong. */
export const usageError = (message: string): CliError =>
  new CliError(message, { exit: exitCode.usage, code: "invalid_request" });

/** These are faults of the program; the message of any other error is for the user. */
export const isBug = (error: unknown): boolean =>
  [TypeError, ReferenceError, RangeError, SyntaxError].some((kind) => error instanceof kind);
