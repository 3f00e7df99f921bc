import { existsSync, realpathSync, statSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, resolve } from "node:path";

const isRoot = process.geteuid?.() === 0;

/**
 * Why svc update does not run as root, with the command to use; null: it may. Who may write to HOME or SERVICE_JOBS_DIR
 * would choose what root runs, by a link, an .npmrc or a config.yml.
 * @param command what the user has typed
 */
export const refusalAsRoot = (path: string, variable: string, command: string): string | null => {
  const other = isRoot ? othersAbove(resolve(path)) : null;
  if (other === null) return null;
  const use = `run "env -u SERVICE_JOBS_DIR HOME=${userInfo().homedir} ${command}", then restart the service`;
  return `As root, svc update trusts no directory of another user, and ${other} of ${variable} is one: ${use}, or run svc update as that user`;
};

/** The path, or a directory above it, that is not root's; null: all are. */
const othersAbove = (path: string): string | null => {
  if (!existsSync(path)) return othersAbove(dirname(path));
  const real = realpathSync(path);
  if (statSync(real).uid !== 0) return real;
  return real === dirname(real) ? null : othersAbove(dirname(real));
};

/** npm must not read the `.npmrc` of a home as root. */
export const npmOptions: readonly string[] = isRoot ? ["--userconfig=/dev/null"] : [];
