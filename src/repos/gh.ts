import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../lib/command.ts";
import { pickEnvironment, withoutCredentials } from "../lib/git.ts";
import { findExecutable } from "../lib/process/executable.ts";
import { createRedactor } from "../lib/redact.ts";
import type { GitContext } from "./git-context.ts";

export type GhCall = { token: string; signal: AbortSignal; input?: string };

/** gh did not do what it was asked; `message` is bounded and free of credentials. */
export class GhError extends Error {
  override name = "GhError";
}

/** Runs the git host's CLI with a configuration and a directory of its own; the token is in its environment alone. */
export const gh = async (
  context: GitContext,
  args: readonly string[],
  { token, signal, input }: GhCall,
): Promise<string> => {
  const home = await mkdtemp(join(tmpdir(), "service-gh-"));
  try {
    const result = await runCommand({
      command: "gh",
      args,
      cwd: home,
      env: ghEnvironment(context, { token, home }),
      timeoutSeconds: context.settings.gitTimeout,
      signal,
      input,
      maxOutputBytes: 4 * 1024 * 1024,
    });
    if (result.exitCode === 0 && result.ended === "exited") return result.stdout;
    const said = withoutCredentials(createRedactor([token])(`${result.stderr}\n${result.stdout}`));
    const why =
      result.ended === "timed_out" ? `no answer within ${context.settings.gitTimeout} s` : said.trim();
    throw new GhError(why.replaceAll(/\s*\n\s*/g, "; ").slice(0, 1000));
  } finally {
    await rm(home, { recursive: true, force: true });
  }
};

/** Whether the CLI is there. */
export const hasGh = async ({ env }: GitContext): Promise<boolean> =>
  (await findExecutable("gh", env["PATH"] ?? "")).ok;

const ghEnvironment = (
  { env, settings }: GitContext,
  { token, home }: { token: string; home: string },
): Record<string, string> => ({
  ...pickEnvironment(env),
  HOME: home,
  GH_CONFIG_DIR: home,
  GH_HOST: settings.gitHost,
  ...(settings.gitHost === "github.com" ? { GH_TOKEN: token } : { GH_ENTERPRISE_TOKEN: token }),
  GH_PROMPT_DISABLED: "1",
  GH_NO_UPDATE_NOTIFIER: "1",
  NO_COLOR: "1",
  // gh asks git about the directory it stands in: there is nothing for it to find.
  GIT_CEILING_DIRECTORIES: home,
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
});
