import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { print, printJson } from "../print.ts";
import { serviceName, version as number } from "../../main/version.ts";

/** `svc version` */
export const version = async ({ json }: { json?: boolean }): Promise<ExitCode> => {
  if (json === true) printJson({ name: serviceName, version: number });
  else print(`${serviceName} ${number}`);
  return exitCode.ok;
};
