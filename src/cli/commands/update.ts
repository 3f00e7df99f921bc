import { isInstalledForUser, refusalAsRoot, runUpdate } from "../../main/update.ts";
import { CliError, isBug, usageError, type ExitCode } from "../failure.ts";
import { interruptible } from "../interruption.ts";
import { note, printAnswer } from "../print.ts";
import { oneLine } from "../../view/sanitise.ts";

type Options = { source?: string; rollback?: boolean; json?: boolean };

/** `svc update`: says what takes long on stderr, and on stdout what came of it and the line that restarts. */
export const update = async ({ source, rollback = false, json }: Options): Promise<ExitCode> => {
  if (isInstalledForUser())
    throw unchanged("Update this svc by git pull and npm run install-user in its checkout, or one made anew");
  if (rollback && source !== undefined)
    throw usageError("--rollback goes back to the version before: leave out --source");
  if (!rollback && source === undefined)
    throw usageError(
      "Name the version to install, svc update --source FILE.tgz: no registry has svc yet; a git URL or a directory will do, too",
    );
  const refusal = refusalAsRoot(process.env, `svc update ${rollback ? "--rollback" : `--source ${source}`}`);
  if (refusal !== null) throw unchanged(refusal);
  const work = async (signal: AbortSignal): Promise<ExitCode> => {
    const done = await runUpdate({
      source: source ?? null,
      env: process.env as Record<string, string>,
      say: (sentence) => note(oneLine(sentence)),
      signal,
    }).catch((error: unknown) => {
      throw isBug(error) || !(error instanceof Error) ? error : unchanged(error.message, error);
    });
    const restart = `systemctl ${process.getuid?.() === 0 ? "" : "--user "}restart svc`;
    return printAnswer({ success: true, ...done, restart }, json, () =>
      oneLine(`svc is ${done.to}, it was ${done.from}. A service that runs stays as it is until: ${restart}`),
    );
  };
  return await interruptible(work, () => note("Interrupted: svc was not changed"));
};

const unchanged = (message: string, cause?: Error): CliError =>
  new CliError(`${message}. svc was not changed`, { code: "update_failed", cause });
