import { loadSettings } from "../../config/settings.ts";
import { runUpdate } from "../../main/update/update.ts";
import { confirm } from "../confirm.ts";
import { CliError, isBug, usageError, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { note, printAnswer } from "../print.ts";
import { oneLine } from "../text/sanitise.ts";

type Options = { source?: string; rollback?: boolean; yes?: boolean; json?: boolean };

/** `svc update`: says each step on stderr, and on stdout what came of it. */
export const update = async ({ source, rollback = false, yes = false, json }: Options): Promise<ExitCode> => {
  if (rollback && source !== undefined)
    throw usageError("--rollback goes back to the version before: leave out --source");
  if (!yes && !(process.stdin.isTTY && process.stderr.isTTY))
    throw usageError("svc update stops the service: without a terminal to ask on, it needs --yes");
  const { settings } = loadSettings({ env: process.env });
  using interruption = catchInterruption();
  const { signal } = interruption;
  const done = await runUpdate({
    source: rollback ? null : (source ?? "svc-agent"),
    settings,
    env: process.env as Record<string, string>,
    confirm: async (question) => {
      if (!yes && !(await confirm(question, false))) throw new Error("Not confirmed");
    },
    say: (sentence) => note(oneLine(sentence)),
    signal,
  }).catch((error: unknown) => {
    if (signal.aborted) return null;
    if (isBug(error) || !(error instanceof Error)) throw error;
    throw new CliError(`${error.message}. svc was not changed`, { code: "update_failed", cause: error });
  });
  if (done === null) {
    note("Interrupted: svc was not changed; a service that was asked to stop still does");
    return interruption.exit();
  }
  const { to, start } = done;
  const what = start === null ? "" : `. Start the service again, in the environment that it had: ${start}`;
  return printAnswer({ success: true, ...done }, json, () => oneLine(`svc ${to} is installed${what}`));
};
