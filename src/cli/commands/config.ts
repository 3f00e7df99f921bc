import { describeSettings } from "../../config/describe.ts";
import { loadSettings } from "../../config/settings.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { note, print, printJson, terminalColumns } from "../print.ts";
import { aligned } from "../text/columns.ts";
import { painter } from "../text/paint.ts";
import { oneLine } from "../text/sanitise.ts";

/** `svc config` */
export const config = async ({ json }: { json?: boolean }): Promise<ExitCode> => {
  const loaded = loadSettings({ env: process.env });
  const rows = describeSettings(loaded);
  if (json === true) printJson({ settings: rows, warnings: loaded.warnings });
  else {
    const cells = rows.map(({ name, value, source }) => [name, oneLine(value) || "–", oneLine(source)]);
    const columns = terminalColumns();
    const [head = "", ...lines] = aligned(
      [["NAME", "VALUE", "SOURCE"], ...cells],
      columns === undefined ? {} : { columns },
    );
    print([painter(process.stdout)("bold", head), ...lines].join("\n"));
  }
  for (const warning of loaded.warnings) note(`svc: warning: ${oneLine(warning)}`);
  return exitCode.ok;
};
