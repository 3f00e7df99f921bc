import { realpathSync, statSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { dirname, resolve } from "node:path";

const isRoot = process.geteuid?.() === 0;

/**
 * Why svc update does not run as root, with the command to use; null: it may. Who may write to HOME or SERVICE_JOBS_DIR
 * would choose what root runs, by an .npmrc, a config.yml or a link.
 * @param command what the user has typed
 */
export const refusalAsRoot = (env: NodeJS.ProcessEnv, command: string): string | null => {
  const { SERVICE_JOBS_DIR: jobsDir } = env;
  const trusted = { HOME: homedir(), ...(jobsDir && { SERVICE_JOBS_DIR: jobsDir }) };
  for (const [variable, path] of Object.entries(isRoot ? trusted : {})) {
    const other = othersAbove(resolve(path));
    const use = `run "env -u SERVICE_JOBS_DIR HOME=${userInfo().homedir} ${command}", or run svc update as that user`;
    if (other !== null)
      return `As root, svc update trusts no directory of another user, and ${other} of ${variable} is one: ${use}`;
  }
  return null;
};

/** The path, or a directory above it, that is not root's; null: all are. What is missing is judged by what is above. */
const othersAbove = (path: string): string | null => {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return othersAbove(dirname(path));
  const real = realpathSync(path);
  if (found.uid !== 0) return real;
  return real === dirname(real) ? null : othersAbove(dirname(real));
};
