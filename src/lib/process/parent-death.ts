import { execFile } from "node:child_process";
import { promisify } from "node:util";

/**
 * Command prefix that makes the kernel send TERM to a process when the one that started it dies, so that a killed
 * service does not leave its agents at work: util-linux `setpriv`, which keeps the pid. Empty where there is none (or
 * BusyBox's, which lacks the option); the recovery at the next start then ends what is left.
 */
export const parentDeathSignal = (): Promise<string[]> => (prefix ??= probe());

let prefix: Promise<string[]> | undefined;

const command = ["setpriv", "--pdeathsig", "TERM", "--"];

const probe = async (): Promise<string[]> => {
  const [program = "", ...args] = command;
  return promisify(execFile)(program, [...args, "true"]).then(
    () => command,
    () => [],
  );
};
