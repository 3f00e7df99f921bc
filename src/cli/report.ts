import { ClientError } from "../client/client-error.ts";
import { ConfigError } from "../config/config-error.ts";
import { ServiceError } from "../contract/errors.ts";
import { CliError, exitCode, isBug, type ExitCode } from "./failure.ts";
import { note, print, printJson } from "./print.ts";
import { faultWords, flagWords, sanitise } from "../view/sanitise.ts";

/** Prints a failure on stderr, with `json` also as a failure body on stdout (`line`: in one line), and returns the exit code. */
export const report = (
  error: unknown,
  { json, name = "svc" }: { json: boolean | "line"; name?: string },
): ExitCode => {
  const levelVariable = name === "svc" ? "SERVICE_LOG_LEVEL" : "BRIDGE_LOG_LEVEL";
  const { message, code, exit } = explain(error, levelVariable);
  const body = { success: false, error: message, code };
  if (json === "line") print(JSON.stringify(body));
  else if (json) printJson(body);
  const inShell = code === "invalid_request" ? faultWords(message) : message;
  note(`${name}: ${sanitise(error instanceof ClientError ? flagWords(inShell) : message)}`);
  const debug = /^(debug|trace)$/.test(process.env[levelVariable] ?? "");
  if (code === "internal" && error instanceof Error && debug) note(sanitise(error.stack ?? ""));
  return exit;
};

const explain = (
  error: unknown,
  levelVariable: string,
): { message: string; code: string; exit: ExitCode } => {
  if (error instanceof CliError) return { message: error.message, code: error.code, exit: error.exitCode };
  if (error instanceof ClientError || error instanceof ConfigError || error instanceof ServiceError) {
    const { message, code } = error;
    const refused =
      error instanceof ClientError &&
      (error.status === 400 || error.status === 413) &&
      !failedAttempts.has(code);
    return { message, code, exit: refused ? exitCode.usage : exitCode.failure };
  }
  if (!(error instanceof Error) || isBug(error)) {
    const message = `${String(error)} (${levelVariable}=debug says more)`;
    return { message, code: "internal", exit: exitCode.failure };
  }
  return { message: error.message, code: "failed", exit: exitCode.failure };
};

/** Codes of status 400 for a valid request that failed. */
const failedAttempts: ReadonlySet<string> = new Set(["clone_failed", "worktree_failed"]);
