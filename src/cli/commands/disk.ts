import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { print, printJson, terminalColumns } from "../print.ts";
import { diskPage } from "../text/disk-page.ts";
import { painter } from "../text/paint.ts";

/** `svc disk` */
export const disk = async ({ json }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.get_disk_usage();
  if (json === true) printJson(body);
  else print(diskPage(body, { paint: painter(process.stdout), columns: terminalColumns() }));
  return exitCode.ok;
};
