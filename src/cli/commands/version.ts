import { serviceName, version as number } from "../../main/version.ts";
import type { ExitCode } from "../failure.ts";
import { printAnswer } from "../print.ts";

/** `svc version`; a file of its own, for it needs no more than these imports. */
export const version = async ({ json }: { json?: boolean }): Promise<ExitCode> =>
  printAnswer({ name: serviceName, version: number }, json, () => `${serviceName} ${number}`);
