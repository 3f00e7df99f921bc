import { runCommand } from "../lib/command.ts";
import { pickEnvironment } from "../lib/git.ts";
import type { GitContext } from "./git-context.ts";

/** The URL with the host that ssh makes of its own: `~/.ssh/config` may call github.com `github-work`. Others as they are. */
export const withoutAlias = async (
  { env, settings, signal }: Pick<GitContext, "env" | "settings" | "signal">,
  url: string,
): Promise<string> => {
  const [, before = "", alias, after = ""] =
    /^(ssh:\/\/(?:[^/@]*@)?|[^/@:]+@)([a-z0-9][\w.-]*)([:/].*)$/i.exec(url) ?? [];
  if (alias === undefined) return url;
  // As git has it start ssh: a shell's words.
  const script = `${env["GIT_SSH_COMMAND"] || "ssh"} -G "$1"`;
  const asked = { command: "/bin/sh", args: ["-c", script, "sh", alias], cwd: "/", signal };
  const asking = runCommand({ ...asked, env: pickEnvironment(env), timeoutSeconds: settings.gitTimeout });
  const { stdout } = await asking.catch(() => ({ stdout: "" }));
  const [, host] = /^hostname ([\w.-]+)$/m.exec(stdout) ?? [];
  return host === undefined ? url : `${before}${host}${after}`;
};
