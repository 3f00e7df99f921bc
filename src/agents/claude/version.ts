import { realpath, stat } from "node:fs/promises";
import { runCommand } from "../../lib/command.ts";
import { findExecutable } from "../../lib/process/executable.ts";

/** The first version whose questions can be put off until the session is resumed. */
export const oldestVersion = "2.1.197";

/** The newest that the tests run with. A newer one is tried as this one. */
export const newestVersion = "2.1.312";

export const supportedText = `${oldestVersion} to ${newestVersion}`;

export type Capabilities = {
  supported: boolean;
  /** Whether it can ask a person, have a plan approved, and hear words in the middle of a turn. */
  asks: boolean;
  /** Whether it takes `--worktree` in a worktree that the service made. */
  worktreeFlag: boolean;
};

const none: Capabilities = { supported: false, asks: false, worktreeFlag: false };

/** From each version on, what differs from the row before. */
const table: readonly { from: string; can: Partial<Capabilities> }[] = [
  // The real-CLI suites run with it.
  { from: oldestVersion, can: { supported: true, asks: true, worktreeFlag: true } },
  // Bisected over 122 releases on 2026-11-28: 2.1.221 works; 2.1.222 ends with `Error creating worktree`.
  { from: "2.1.222", can: { worktreeFlag: false } },
];

/** @param version null: unknown, which can do nothing */
export const capabilitiesOf = (version: string | null): Capabilities => {
  const rows = table.filter(({ from }) => version !== null && compare(version, from) >= 0);
  return Object.assign({ ...none }, ...rows.map(({ can }) => can)) as Capabilities;
};

/** Whether the tests run with a version between which it is. */
export const isTested = (version: string | null): boolean =>
  version !== null && compare(version, oldestVersion) >= 0 && compare(version, newestVersion) <= 0;

/**
 * The subject of a sentence about an agent that failed, and what to do (null: its version is no reason). They name the
 * version of a CLI that failed before it did anything, or that is too old.
 */
export const blameVersion = (
  version: string | null,
  { hasBegun }: { hasBegun: boolean },
): { agent: string; advice: string | null } => {
  const { supported } = capabilitiesOf(version);
  if (hasBegun && supported) return { agent: "The agent", advice: null };
  return {
    agent: `The agent CLI (${version ?? "of an unknown version"}; svc works with ${supportedText})`,
    advice: isTested(version)
      ? null
      : `Install one that works: npm install --global @anthropic-ai/claude-code@${newestVersion}, or point SERVICE_AGENT_CLI_BINARY at it.`,
  };
};

const compare = (a: string, b: string): number => a.localeCompare(b, "en", { numeric: true });

export type CliVersion = {
  /** `2.1.197`; null: the CLI is not there, or does not tell it. */
  version: string | null;
  /** Output of `--version`, or the reason why there is none. */
  text: string;
  /** The file, links resolved; null: it is not there. */
  path: string | null;
};

/** A home in which nothing can be made, not even by root: nothing of the user's own is read. */
const nowhere = "/dev/null";

/** An answer counts so long, ms: a script that starts the CLI stays the same when the CLI is updated. */
const answerLasts = 60_000;

/** By the path of the command; `print` is the fingerprint of its file. */
const answers = new Map<string, { at: number; print: string; answer: Promise<CliVersion> }>();

/**
 * Asks the CLI for its version; again when its file changes.
 * @param command a path, or a name that is looked up on `env.PATH`
 * @param env the whole environment of the CLI
 */
export const askVersion = async (command: string, env: Record<string, string>): Promise<CliVersion> => {
  const file = await findExecutable(command, env["PATH"] ?? "");
  if (!file.ok) return { version: null, text: file.message, path: null };
  const path = await realpath(file.path).catch(() => file.path);
  const status = await stat(path).catch(() => null);
  const print = [path, status?.mtimeMs, status?.size, status?.ino].join("\0");
  const before = answers.get(file.path);
  if (before?.print === print && performance.now() - before.at < answerLasts) return await before.answer;
  const answer = runVersion(file.path, env).then((said) => ({ ...said, path }));
  answers.set(file.path, { at: performance.now(), print, answer });
  // It may be under way to another file, or the machine too busy.
  if ((await answer).version === null) answers.delete(file.path);
  return await answer;
};

/** Under the name that was looked up: a program may behave by the name that it is called by. */
const runVersion = async (
  command: string,
  env: Record<string, string>,
): Promise<Omit<CliVersion, "path">> => {
  const { stdout, stderr } = await runCommand({
    command,
    args: ["--version"],
    cwd: "/",
    env: { ...env, HOME: nowhere, CLAUDE_CONFIG_DIR: nowhere },
    timeoutSeconds: 10,
    signal: AbortSignal.timeout(10_000),
  }).catch((error: unknown) => ({ stdout: "", stderr: String(error) }));
  return { version: versionIn(stdout), text: (stdout.trim() || stderr.trim()).slice(0, 300) };
};

/** `2.1.197 (Claude Code)` */
export const versionIn = (text: string): string | null => /^\d+\.\d+\.\d+/.exec(text.trim())?.[0] ?? null;
