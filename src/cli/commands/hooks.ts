import { syncCompanions } from "../../main/sync-companions.ts";
import { loadSettings } from "../../config/settings.ts";
import type { CompanionTarget } from "../../contract/companion.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { interruptible } from "../interruption.ts";
import { printAnswer } from "../print.ts";
import { table } from "../../view/columns.ts";
import { oneLine } from "../../view/sanitise.ts";

export type HooksSyncOptions = { target: CompanionTarget | "all"; url?: string; json?: boolean };

/** `svc hooks sync` */
export const hooksSync = async ({ target, url, json }: HooksSyncOptions): Promise<ExitCode> => {
  if (url !== undefined && target !== "hooks" && target !== "all")
    throw usageError(`--url is for the hook package: use it with --target hooks, not ${target}`);
  const { settings } = loadSettings({ env: process.env });
  return await interruptible(async (signal) => {
    const results = await syncCompanions({ settings, env: process.env, target, url, signal });
    printAnswer(results, json, (found, layout) =>
      table(
        Object.entries(found),
        [
          ["TARGET", ([name]) => name],
          ["RESULT", ([, result]) => oneLine(result)],
        ],
        { ...layout, columns: layout.columns ?? Infinity },
      ).join("\n"),
    );
    const failed = Object.values(results).some((result) => result.startsWith("error"));
    return failed ? exitCode.failure : exitCode.ok;
  });
};
