import { serviceName, version as number } from "../../main/version.ts";
import type { ExitCode } from "../failure.ts";
import { printAnswer } from "../print.ts";

/** `svc version`; in a file of its own, since it needs only these imports. */
export const version = async ({ json }: { json?: boolean }): Promise<ExitCode> =>
  printAnswer({ name: serviceName, version: number }, json, () => `${serviceName} ${number}`);
