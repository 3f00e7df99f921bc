import { homedir } from "node:os";
import { loadSettings } from "../../config/settings.ts";
import type { Settings } from "../../config/variables.ts";
import { refusalAsRoot } from "../../main/update/as-root.ts";
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
  if (!rollback && source === undefined)
    throw usageError(
      "Name the version to install, svc update --source FILE.tgz: no registry has svc yet; a git URL or a directory will do, too",
    );
  if (!yes && !(process.stdin.isTTY && process.stderr.isTTY))
    throw usageError("svc update stops the service: without a terminal to ask on, it needs --yes");
  const settings = settingsFor(rollback ? "svc update --rollback" : `svc update --source ${source}`);
  using interruption = catchInterruption();
  const { signal } = interruption;
  const done = await runUpdate({
    source: source ?? null,
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

/** HOME is judged before the configuration in it is read. */
const settingsFor = (command: string): Settings => {
  const judge = (path: string, variable: string): void => {
    const refusal = refusalAsRoot(path, variable, command);
    if (refusal !== null) throw new CliError(`${refusal}. svc was not changed`, { code: "update_failed" });
  };
  judge(homedir(), "HOME");
  const { settings } = loadSettings({ env: process.env });
  judge(settings.jobsDir, "SERVICE_JOBS_DIR");
  return settings;
};
