import { describeSettings } from "../../config/describe.ts";
import { loadSettings } from "../../config/settings.ts";
import { type ExitCode, CliError, isBug, usageError } from "../failure.ts";
import { note, printAnswer } from "../print.ts";
import type { Layout } from "../../view/paint.ts";
import { table, type Column } from "../../view/columns.ts";
import { oneLine } from "../../view/sanitise.ts";
import { resolve } from "node:path";
import { initSharedFs, type SharedFs } from "../../main/init-shared-fs.ts";

type Options = { json?: boolean };

/** `svc config` */
export const config = async ({ json }: Options): Promise<ExitCode> => {
  const loaded = loadSettings({ env: process.env });
  const body = { settings: describeSettings(loaded), warnings: loaded.warnings };
  const exit = printAnswer(body, json, ({ settings }, { paint, columns = Infinity }) =>
    table(
      settings,
      [
        ["NAME", ({ name }) => name],
        ["VALUE", ({ value }) => oneLine(value) || "–"],
        ["SOURCE", ({ source }) => oneLine(source)],
      ],
      { paint, columns },
    ).join("\n"),
  );
  for (const warning of loaded.warnings) note(`svc: warning: ${oneLine(warning)}`);
  return exit;
};

export type InitSharedFsOptions = { sharedRoot?: string; json?: boolean };

/** `svc init-shared-fs` */
export const initSharedFsCommand = async ({ sharedRoot, json }: InitSharedFsOptions): Promise<ExitCode> => {
  const root = sharedRoot === undefined ? configured() : resolve(sharedRoot);
  if (root === null || sharedRoot === "") {
    throw usageError(
      "There is no shared file system to lay out: name its directory with --shared-root or SERVICE_SHARED_FS_ROOT",
    );
  }
  const made = await initSharedFs(root).catch((cause: unknown) => {
    if (isBug(cause) || !(cause instanceof Error)) throw cause;
    const wayOut = "make it a directory that this user may write to, or name another with --shared-root";
    throw new CliError(`${root} cannot be laid out (${cause.message}): ${wayOut}`, {
      code: "shared_fs_unusable",
      cause,
    });
  });
  return printAnswer({ success: true, ...made }, json, page);
};

const configured = (): string | null =>
  loadSettings({ env: process.env, role: "client" }).settings.sharedFsRoot;

const page = ({ directories, profiles }: SharedFs, { paint }: Layout): string => {
  const rows = [
    ...directories.map(({ path, created }) => ({ path, outcome: created ? "created" : "was there" })),
    ...profiles.map(({ path, copied }) => ({ path, outcome: copied ? "copied" : "was there" })),
  ];
  const columns: Column<(typeof rows)[number]>[] = [
    ["", ({ outcome }) => outcome],
    ["PATH", ({ path }) => oneLine(path)],
  ];
  return table(rows, columns, { paint, columns: Infinity }).join("\n");
};
