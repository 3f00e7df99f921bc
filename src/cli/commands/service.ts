import { describeSettings } from "../../config/describe.ts";
import { loadSettings } from "../../config/settings.ts";
import { type ExitCode, CliError, usageError } from "../failure.ts";
import { note, printAnswer, type Layout } from "../print.ts";
import { table, type Column } from "../text/columns.ts";
import { oneLine } from "../text/sanitise.ts";
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
  const made = await initSharedFs(root);
  if ("fault" in made) throw new CliError(made.fault, { code: "shared_fs_unusable" });
  const exit = printAnswer({ success: true, ...made }, json, page);
  if (json !== true) for (const { left } of made.profiles) if (left !== null) note(`svc: ${oneLine(left)}`);
  return exit;
};

const configured = (): string | null =>
  loadSettings({ env: process.env, role: "client" }).settings.sharedFsRoot;

const page = ({ directories, profiles }: SharedFs, { paint }: Layout): string => {
  const rows = [
    ...directories.map(({ path, created }) => ({ path, outcome: created ? "created" : "was there" })),
    ...profiles.map(({ path, copied }) => ({ path, outcome: copied ? "copied" : "left" })),
  ];
  const columns: Column<(typeof rows)[number]>[] = [
    ["", ({ outcome }) => outcome],
    ["PATH", ({ path }) => oneLine(path)],
  ];
  return table(rows, columns, { paint, columns: Infinity }).join("\n");
};
