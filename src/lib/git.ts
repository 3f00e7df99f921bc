import { CommandMissingError, runCommand, type Command, type CommandResult } from "./command.ts";
import { instanceVariable, jobVariable } from "./process/marker.ts";
import { createRedactor } from "./redact.ts";

export type GitOptions = Omit<Command, "command" | "args" | "cwd" | "env"> & {
  /** The service's environment; git sees only the variables in `passedOn`, with a `wall` only those in `passedThrough`. */
  env: NodeJS.ProcessEnv;
  /** Default `/proc`, which cannot be missing, and where nobody can leave a repository; in `/` an agent of root could. */
  cwd?: string | undefined;
  /** Further variables, GIT_DIR and the like. */
  variables?: Record<string, string> | undefined;
  /** Further configuration, which overrides that of the repository. */
  config?: readonly (readonly [key: string, value: string])[] | undefined;
  /** Marks the process as one of a job, so that a sweep after a crash finds it. */
  jobId?: string | undefined;
  /** Never shown in an error. */
  secrets?: readonly string[] | undefined;
  /** What the secrets are, for whoever must renew them. */
  credential?: string | undefined;
};

export type GitOutput = { stdout: string; stderr: string };

/** A git command failed; `message` is bounded and free of credentials. */
export class GitError extends Error {
  override name = "GitError";
  /** Null: git was ended. */
  readonly exitCode: number | null;
  readonly ended: CommandResult["ended"] | "missing";
  /** The output, redacted, at most 4,000 characters. */
  readonly said: string;
  /** The credential that git had; null: none. */
  readonly credential: string | null;

  constructor(
    message: string,
    {
      exitCode,
      ended,
      said,
      credential = null,
      cause,
    }: Pick<GitError, "exitCode" | "ended" | "said"> & { credential?: string | null; cause?: unknown },
  ) {
    super(message, { cause });
    this.credential = credential;
    this.exitCode = exitCode;
    this.ended = ended;
    this.said = said;
  }
}

/**
 * Runs git so that no content of a repository can make it run a program: no hooks, filters, pagers, editors, helpers, prompts,
 * system or user configuration. The caller must vouch for the repository's own config file.
 * @throws GitError, or the signal's reason
 */
export const git = async (args: readonly string[], options: GitOptions): Promise<GitOutput> => {
  const result = await runCommand({
    ...options,
    command: "git",
    args,
    cwd: options.cwd ?? "/proc",
    env: gitEnvironment(options),
  }).catch((error: unknown) => {
    if (!(error instanceof CommandMissingError)) throw error;
    const message = `git could not be started: install it (2.33 or later) and check that it is on PATH. ${error.message}`;
    throw new GitError(message, { exitCode: null, ended: "missing", said: "", cause: error });
  });
  if (result.exitCode === 0 && result.ended === "exited")
    return { stdout: result.stdout, stderr: result.stderr };
  throw failure(args, result, options);
};

const failure = (
  args: readonly string[],
  { exitCode, ended, stderr, stdout }: CommandResult,
  options: GitOptions,
): GitError => {
  const what = `git ${args.find((argument) => !argument.startsWith("-")) ?? ""}`;
  const hide = createRedactor(options.secrets ?? []);
  // Some commands (push --porcelain) print the reason on the standard output.
  const said = withoutCredentials(hide(`${stderr}${stdout.slice(-2000)}`))
    .trim()
    .slice(-4000);
  // The exit code is then not git's: no caller may take it for an answer.
  if (options.wall && (exitCode === 126 || /^(bwrap|landlock): /.test(stderr))) {
    const message = `git could not be started behind its wall: ${said}`;
    return new GitError(message, { exitCode: null, ended: "missing", said });
  }
  const sentence: Record<CommandResult["ended"], string> = {
    exited: `${what} ended with exit code ${exitCode}: ${said}`,
    signalled: `${what} was ended by a signal: ${said}`,
    timed_out: `${what} did not finish within ${options.timeoutSeconds} s`,
    too_much_output: `${what} wrote more than can be held in memory`,
  };
  return new GitError(sentence[ended], { exitCode, ended, said, credential: options.credential ?? null });
};

/** The text without user names and passwords in URLs. */
export const withoutCredentials = (text: string): string =>
  text.replaceAll(/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@'"]*@/gi, "$1");

/** Variables that git needs to find programs and servers; it gets no others of the service's environment. */
const passedOn = [
  "PATH",
  "TMPDIR",
  "TZ",
  ...["http_proxy", "https_proxy", "all_proxy", "no_proxy"].flatMap((name) => [name, name.toUpperCase()]),
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "GIT_SSL_CAINFO",
  "GIT_SSL_CAPATH",
  "SSH_AUTH_SOCK",
  "GIT_SSH_COMMAND",
  instanceVariable,
] as const;

/** The same behind a wall: a proxy's address may have a password in it, and an agent of ssh has keys. */
const passedThrough = ["PATH", "TZ", instanceVariable] as const;

export const pickEnvironment = (
  env: NodeJS.ProcessEnv,
  names: readonly string[] = passedOn,
): Record<string, string> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = env[name];
      return value === undefined || value === "" ? [] : [[name, value]];
    }),
  );

/** Overrides every configuration file: an agent of the same user could change the repository's after our check of it. */
const safeConfig: readonly (readonly [string, string])[] = [
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["core.askPass", ""],
  ["core.attributesFile", "/dev/null"],
  ["core.excludesFile", "/dev/null"],
  ["core.useReplaceRefs", "false"],
  ["credential.helper", ""],
  ["http.extraHeader", ""],
  ["protocol.allow", "never"],
  ["protocol.https.allow", "always"],
  ["protocol.ssh.allow", "always"],
  ["protocol.file.allow", "always"],
  ["protocol.http.allow", "always"],
  ["protocol.ext.allow", "never"],
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["fetch.writeCommitGraph", "false"],
  ["fetch.recurseSubmodules", "false"],
  ["push.recurseSubmodules", "no"],
  ["push.gpgSign", "false"],
  ["submodule.recurse", "false"],
  ["commit.gpgSign", "false"],
  ["tag.gpgSign", "false"],
  ["log.showSignature", "false"],
  ["advice.detachedHead", "false"],
];

const gitEnvironment = (options: GitOptions): Record<string, string> => {
  const { env, variables, config = [], jobId, wall } = options;
  const passed = pickEnvironment(env, wall === undefined ? passedOn : passedThrough);
  return {
    // git's own variable: its TLS library may not know the common one.
    ...(passed["SSL_CERT_FILE"] === undefined ? {} : { GIT_SSL_CAINFO: passed["SSL_CERT_FILE"] }),
    ...passed,
    // Without a home, git finds no .netrc, no .gitconfig and no directory under XDG_CONFIG_HOME.
    HOME: "/nonexistent",
    LC_ALL: "C",
    GIT_CEILING_DIRECTORIES: "/",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_PAGER: "cat",
    GIT_EDITOR: "false",
    GIT_SSH_COMMAND: `${passed["GIT_SSH_COMMAND"] ?? "ssh"} -oBatchMode=yes`,
    ...(jobId === undefined ? {} : { [jobVariable]: jobId }),
    ...asVariables([...safeConfig, ...config]),
    ...variables,
  };
};

const asVariables = (config: readonly (readonly [string, string])[]): Record<string, string> => ({
  GIT_CONFIG_COUNT: String(config.length),
  ...Object.fromEntries(
    config.flatMap(([key, value], index) => [
      [`GIT_CONFIG_KEY_${index}`, key],
      [`GIT_CONFIG_VALUE_${index}`, value],
    ]),
  ),
});
