import { describeSettings } from "../../config/describe.ts";
import { loadSettings } from "../../config/settings.ts";
import { connect } from "../connect.ts";
import type { ExitCode } from "../failure.ts";
import { note, printAnswer } from "../print.ts";
import { factLines, table } from "../text/columns.ts";
import { oneLine } from "../text/sanitise.ts";

type Options = { json?: boolean };

/** `svc status` */
export const status = async ({ json }: Options): Promise<ExitCode> => {
  const { client, baseUrl } = connect();
  const health = await client.health({ signal: AbortSignal.timeout(10_000) });
  return printAnswer(health, json, (_, { paint }) =>
    factLines(
      [
        ["Status", paint("green", oneLine(health.status))],
        ["Service", oneLine(health.service)],
        ["Address", baseUrl],
      ],
      { paint },
    ).join("\n"),
  );
};

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
