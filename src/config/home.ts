import { homedir } from "node:os";
import { isAbsolute } from "node:path";
import { ConfigError } from "./config-error.ts";

/**
 * The home directory of this user: HOME, else what the machine's accounts say. An empty HOME counts as unset, for all that
 * asks afterwards.
 * @throws ConfigError when there is none, as of a container's user that no account has
 */
export const homeDirectory = (): string => {
  if (process.env["HOME"] === "") delete process.env["HOME"];
  try {
    const home = homedir();
    if (isAbsolute(home)) return home;
  } catch {
    // Neither HOME nor an account.
  }
  throw new ConfigError(["HOME names no directory: set it to one that this user may write to, as /home/me"]);
};
