import { resolve } from "node:path";
import { loadSettings } from "../../config/settings.ts";
import { initSharedFs, type SharedFs } from "../../main/init-shared-fs.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { CliError, usageError } from "../failure.ts";
import { note, print, printJson } from "../print.ts";
import { aligned } from "../text/columns.ts";
import { painter } from "../text/paint.ts";
import { oneLine } from "../text/sanitise.ts";

export type InitSharedFsOptions = { sharedRoot?: string; json?: boolean };

/** `svc init-shared-fs` */
export const initSharedFsCommand = async ({ sharedRoot, json }: InitSharedFsOptions): Promise<ExitCode> => {
  const root = sharedRoot === undefined ? configured() : resolve(sharedRoot);
  if (root === null || sharedRoot === "") {
    throw usageError(
      "There is no shared file system to lay out: name its directory with --shared-root or SERVICE_SHARED_FS_ROOT",
    );
  }
  const made = await initSharedFs(root);
  if ("fault" in made) throw new CliError(made.fault, { code: "shared_fs_unusable" });
  if (json === true) printJson({ success: true, ...made });
  else tell(made);
  return exitCode.ok;
};

const configured = (): string | null =>
  loadSettings({ env: process.env, role: "client" }).settings.sharedFsRoot;

const tell = ({ directories, profiles }: SharedFs): void => {
  const rows = [
    ["", "PATH"],
    ...directories.map(({ path, created }) => [created ? "created" : "was there", oneLine(path)]),
    ...profiles.map(({ path, copied }) => [copied ? "copied" : "left", oneLine(path)]),
  ];
  const [head = "", ...lines] = aligned(rows);
  print([painter(process.stdout)("bold", head), ...lines].join("\n"));
  for (const { left } of profiles) if (left !== null) note(`svc: ${oneLine(left)}`);
};
