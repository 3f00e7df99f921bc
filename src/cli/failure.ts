import { exitCode, type ExitCode } from "./exit-code.ts";

/** A failure that a command knows the sentence for. `code` is what `--json` shows. */
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

/** The failure of a command that was not asked right. */
export const usageError = (message: string): CliError =>
  new CliError(message, { exit: exitCode.usage, code: "invalid_request" });
